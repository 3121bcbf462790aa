import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import type { Job } from '../../api/jobs';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { Button, Command, TextButton } from '../../ui/control';
import { kindOf, Mark, reasonText, type Kind } from '../../ui/mark';
import { Loaded } from '../../ui/state';
import { When } from '../../ui/when';
import { BackfillDialog } from './backfill';
import { useJobDialogs } from './dialogs';
import css from './why.module.css';

type Story = Schemas['Story'];

const kinds: Partial<Record<Story['code'], Kind>> = {
  succeeded: 'succeeded', failed: 'failed', cancelled: 'cancelled', running: 'running', accepted: 'accepted', retrying: 'retrying',
    planned: 'planned',
  not_due: 'planned', paused: 'paused', unplanned: 'missed', queue_paused: 'due', queue_full: 'due', queue_rate: 'due',
    run_quota: 'due', key_full: 'due',
    behind: 'late',
  due: 'due', deferred: 'due', archived: 'archived', forgotten: 'unknown', unknown: 'unknown',
};

/** The mark of a story. */
export function kindOfStory(s: Story): Kind {
  if (s.code === 'skipped') return kindOf({ state: 'skipped', reason: s.reason });
  if (s.code === 'succeeded') return kindOf({ state: 'succeeded', attempt: s.run?.attempt });
  return kinds[s.code] ?? 'skipped';
}

const label = (s: Story): string => s.code.replaceAll('_', ' ') + (s.reason ? `: ${reasonText(s.reason)}` : '');

/** What happened to an occurrence and why, in the words of the server. */
export function WhyPanel({ job, at, choose, close }: { job: Job; at: string; choose: (at: string) => void; close: () => void }) {
  const { may } = useSession();
  const [backfill, setBackfill] = useState<string | null>(null);
  const { show, dialog } = useJobDialogs();
  const why = useData({
    key: ['why', job.id, at],
    get: (signal) => unwrap(api.GET('/api/v1/jobs/{job}/why', { params: { path: { job: job.id }, query: { at } }, signal })),
    every: 5000,
  });
  return (
    <section className={css.panel} aria-label="The occurrence that is chosen">
      <Loaded query={why} rows={3}>
        {({ items }) => (
          <div className={css.body}>
            <div className={css.text}>
              {items.map((s, i) => (
                <article key={i} className={css.story}>
                  <h3>{s.local} <When at={s.due_at} utc={false} seconds /></h3>
                  <p className={css.code}><Mark kind={kindOfStory(s)} size={14} label="" /><code>{label(s)}</code></p>
                  <p className={css.said}>{s.text}</p>
                  {s.next && <p className="dim">{s.next}</p>}
                  {s.commands?.map((c) => <Command key={c.join()}>{commands.said(c)}</Command>)}
                  {(s.nearest?.length ?? 0) > 0 && (
                    <p>Nearest: {s.nearest!.map((t) => <TextButton key={t} onClick={() => choose(t)}><When at={t} zone={job.zone}
                      utc={false} /></TextButton>)}</p>
                  )}
                  <div className={css.acts}>
                    {s.run && <Link to="/runs/$run" params={{ run: s.run.id }}
                      className={css.run}>{suggests(s, 'run', 'retry') ? 'Open the run to retry it'
                        : ran(s) ? 'Open the run' : 'Open its entry'}</Link>}
                    {s.code.startsWith('queue_') && <Link to="/queues/$queue" params={{ queue: job.queue ?? 'default' }}
                      className={css.run}>Open the queue</Link>}
                    {may('operator') && suggests(s, 'job', 'backfill') && (
                      <Button tone="primary" onClick={() => setBackfill(s.due_at)}>Backfill this occurrence</Button>
                    )}
                    {may('operator') && suggests(s, 'job', 'trigger') && (
                      <Button onClick={() => show('trigger', job)}>Trigger the job</Button>
                    )}
                    <CopyLink job={job} at={s.due_at} />
                  </div>
                </article>
              ))}
              <Command>{commands.whyJob(job.name, at)}</Command>
            </div>
            <Policies job={job} version={items[0]?.version} />
          </div>
        )}
      </Loaded>
      <span className={css.close}><Button tone="quiet" iconOnly icon="close" onClick={close}>Close the occurrence</Button></span>
      {dialog}
      {backfill && <BackfillDialog job={job} at={backfill} close={() => setBackfill(null)} />}
    </section>
  );
}

const ran = (s: Story): boolean => s.code !== 'skipped' && s.code !== 'planned';

/** Whether the server suggests a command of the CLI, which works for this occurrence. */
export const suggests = (s: Pick<Story, 'commands'>, ...command: string[]): boolean =>
  !!s.commands?.some((c) => command.every((word, i) => c[i] === word));

function CopyLink({ job, at }: { job: Job; at: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(`${location.origin}/ui/jobs/${job.id}/at/${encodeURIComponent(at)}`);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <Button icon={done ? 'check' : 'link'} onClick={() => void copy()}>{done ? 'Copied' : 'Copy link'}</Button>;
}

type Definition = Pick<Schemas['JobInput'], 'missed' | 'overlap' | 'retry' | 'timeout' | 'deadline'>;

/** The policies that were in force: they are the reason of what happened. */
function Policies({ job, version }: { job: Job; version: number | undefined }) {
  const old = version !== undefined && version !== job.version;
  const read = useData({
    key: ['version', job.id, version],
    get: (signal) => unwrap(api.GET('/api/v1/jobs/{job}/versions/{version}',
      { params: { path: { job: job.id, version: version! } }, signal })),
    enabled: old,
  });
  const d: Definition | undefined = old ? read.data?.definition : job;
  if (!d) return null;
  const rows: [string, string | undefined, string][] = [
    ['missed.policy', d.missed?.policy, 'once'], ['missed.catch_up_window', d.missed?.catch_up_window, '30m'],
      ['missed.paused', d.missed?.paused, 'skip'],
    ['overlap', d.overlap, 'skip'], ['retry.max_attempts', d.retry?.max_attempts?.toString(), '3'], ['timeout', d.timeout, '30s'],
    ['deadline', d.deadline, ''],
  ];
  return (
    <dl className={css.policies}>
      <div><dt>In force</dt><dd>version {version ?? job.version}</dd></div>
      {rows.filter(([, v]) => v).map(([k, v, usual]) =>
        <div key={k}><dt>{k}</dt><dd>{v} {v === usual && <span className="dim">default</span>}</dd></div>)}
    </dl>
  );
}
