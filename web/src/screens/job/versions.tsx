import { useState } from 'react';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import type { Job } from '../../api/jobs';
import { useSession } from '../../api/session';
import { actorName } from '../../lib/actor';
import { diffLines, type DiffLine } from '../../lib/diff';
import { useUrl } from '../../lib/search';
import { useAction } from '../../ui/action';
import { Button, Tag } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { Loaded } from '../../ui/state';
import { When } from '../../ui/when';
import { versionYAML } from './definition';
import css from './job.module.css';

/** Who changed the job and when, the difference of two versions, and the way back. */
export function VersionsTab({ job, readOnly }: { job: Job; readOnly: boolean }) {
  const [url, set] = useUrl();
  const { may } = useSession();
  const [back, setBack] = useState<number | null>(null);
  const list = useData({
    key: ['versions', job.id, job.version],
    get: (signal) => unwrap(api.GET('/api/v1/jobs/{job}/versions',
      { params: { path: { job: job.id }, query: { page_size: 100 } }, signal })),
  });
  return (
    <Loaded query={list}>
      {({ items, next_page_token }) => {
        const b = Number(url.b) || items[0]?.version || 1;
        const a = Number(url.a) || Math.max(1, b - 1);
        const restore = (v: Schemas['JobVersion']) => !readOnly && may('editor') && v.version !== job.version &&
          <Button tone="quiet" onClick={() => setBack(v.version)}>Restore…</Button>;
        return (
          <div className={css.versions}>
            <table className={css.versionList}>
              <caption className="sr">Versions, newest first</caption>
              <thead>
                <tr><th>Before</th><th>After</th><th>Version</th><th>When</th><th>By</th><th><span className="sr">Actions</span></th></tr>
              </thead>
              <tbody>
                {items.map((v) => (
                  <tr key={v.version}>
                    <td><label><input type="radio" name="before" aria-label={`Compare from version ${v.version}`} checked={v.version === a}
                      onChange={() => set({ a: String(v.version) })} /></label></td>
                    <td><label><input type="radio" name="after" aria-label={`Compare to version ${v.version}`} checked={v.version === b}
                      onChange={() => set({ b: String(v.version) })} /></label></td>
                    <td>{v.version} {v.version === job.version && <Tag tone="accent">current</Tag>}</td>
                    <td><When at={v.created_at} zone={job.zone} utc={false} /></td>
                    <td>{actorName(v.created_by)}</td>
                    <td className="right">{restore(v)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {next_page_token && <p className="dim">The newest 100 versions are shown.</p>}
            {items.length > 1 && a !== b && <Difference job={job} a={a} b={b} />}
            {items.length === 1 && <p className="dim">The job has not been changed since it was created.</p>}
            {back !== null && <RollbackDialog job={job} version={back} close={() => setBack(null)} />}
          </div>
        );
      }}
    </Loaded>
  );
}

function Difference({ job, a, b }: { job: Job; a: number; b: number }) {
  const both = useData({
    key: ['diff', job.id, a, b],
    get: async (signal) => diffLines(...(await Promise.all([versionYAML(job.id, a, signal), versionYAML(job.id, b, signal)]))),
    keep: true,
  });
  return (
    <div>
      <h3 className={css.diffHead}>Version {a} to {b}</h3>
      <Loaded query={both}>{(lines) => <DiffView lines={lines} />}</Loaded>
    </div>
  );
}

const sign = { same: ' ', removed: '−', added: '+' };

/** Only lines near a change; the rest of the definition is folded. */
export function DiffView({ lines }: { lines: DiffLine[] }) {
  const [whole, setWhole] = useState(false);
  if (lines.every((l) => l.kind === 'same')) return <p className="dim">The definitions are equal.</p>;
  const near = lines.map((_, i) => whole || lines.slice(Math.max(0, i - 3), i + 4).some((l) => l.kind !== 'same'));
  const hidden = near.filter((n) => !n).length;
  return (
    <>
      <pre className={css.diff}>
        {lines.map((l, i) => near[i] ? (
          <span key={i} data-kind={l.kind}><i aria-hidden="true">{sign[l.kind]}</i>{l.kind !== 'same'
            && <span className="sr">{l.kind}: </span>}{l.text}{'\n'}</span>
        ) : i > 0 && near[i - 1] ? <span key={i} className={css.fold}>⋯{'\n'}</span> : null)}
      </pre>
      {hidden > 0 && <Button tone="quiet" onClick={() => setWhole(true)}>Show {hidden} more lines</Button>}
    </>
  );
}

function RollbackDialog({ job, version, close }: { job: Job; version: number; close: () => void }) {
  const act = useAction(
    () => unwrap(api.POST('/api/v1/jobs/{job}:rollback', {
      params: { path: { job: job.id }, header: { 'If-Match': `"${job.version}"` } }, body: { version },
    })),
    { quiet: true, done: (j) => { close(); return `${job.name} is version ${j.version}, with the definition of version ${version}.`; } },
  );
  return (
    <Dialog open close={close} wide title={`Restore version ${version}`} action={`Restore version ${version}`} act={() => act.mutate()}
      busy={act.isPending} error={act.error}>
      <p>The definition of version {version} becomes version {job.version + 1}. It takes effect like any other change.</p>
      <Difference job={job} a={job.version} b={version} />
    </Dialog>
  );
}
