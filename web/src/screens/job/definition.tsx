import { text } from '../../api/client';
import { useData } from '../../api/live';
import type { Job } from '../../api/jobs';
import { commands } from '../../lib/commands';
import { parseExact, type Exact } from '../../lib/json';
import { Command, Copy } from '../../ui/control';
import { Loaded } from '../../ui/state';
import css from './job.module.css';

/** A version as YAML that `belfry apply` reads. Numbers are as they were written. */
export async function versionYAML(job: string, version: number, signal?: AbortSignal): Promise<string> {
  const { toYAML } = await import('../../lib/yaml'); // the library is large, and only this tab needs it
  const body = parseExact(await text(`/api/v1/jobs/${encodeURIComponent(job)}/versions/${version}`, signal)) as { definition: Exact };
  return toYAML(body.definition).trimEnd();
}

export function DefinitionTab({ job }: { job: Job }) {
  const yaml = useData({ key: ['yaml', job.id, job.version], get: (signal) => versionYAML(job.id, job.version, signal) });
  return (
    <Loaded query={yaml}>
      {(source) => (
        <div className={css.source}>
          <div className={css.sourceHead}>
            <span className="dim">Version {job.version}, with all defaults, as <code>belfry apply</code> reads it</span>
            <span className="grow" /><Copy text={source} label="Copy the definition" />
          </div>
          <pre className={css.code}>{source.split('\n').map((line, i) => <span key={i} data-n={i + 1}>{line}{'\n'}</span>)}</pre>
          <Command>{commands.getJob(job.name)}</Command>
        </div>
      )}
    </Loaded>
  );
}
