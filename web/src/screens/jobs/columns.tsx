import { Link } from '@tanstack/react-router';
import type { Job } from '../../api/jobs';
import { actorName } from '../../lib/actor';
import { scheduleText, targetText } from '../../lib/target';
import { Tag } from '../../ui/control';
import { kindOf, Mark, Spark } from '../../ui/mark';
import type { Column } from '../../ui/table';
import { Ago, useNow, When } from '../../ui/when';
import css from './jobs.module.css';

/** The words of the schedule. The zone is seen by the offset of the next due time, and is in the tooltip. */
const short = (job: Job): string => upper(job.words.endsWith(`, ${job.zone}`) ? job.words.slice(0, -job.zone.length - 2) : job.words);

const upper = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

/** A next due time this far in the past is late, not only about to start. */
const lateAfter = 3000;

function Next({ job }: { job: Job }) {
  const now = useNow(5000);
  if (job.state === 'paused') {
    return (
      <span className={css.state} title={job.note}>
        <Mark kind="paused" size={10} label="" />Paused {job.paused_at
          && <Ago at={job.paused_at} />} by {actorName(job.paused_by)}{job.note && `: ${job.note}`}
      </span>
    );
  }
  if (!job.next_due_at) return <span className="dim">{job.state === 'finished' ? 'Finished' : 'Nothing is due'}</span>;
  const late = now - Date.parse(job.next_due_at) > lateAfter;
  return (
    <span className={css.next}>
      {late && <Mark kind="late" size={10} />}
      <When at={job.next_due_at} zone={job.zone} local={job.next_due_local} ago />
    </span>
  );
}

export const columns: Column<Job>[] = [
  {
    head: 'Name', className: css.name,
    cell: (j) => (
      <>
        <Link to="/jobs/$job" params={{ job: j.id }} title={j.name}>{j.name}</Link>
        <span className={`phone ${css.under}`}><Next job={j} /></span>
        <span className={`phone ${css.under} dim`}>{short(j)}</span>
      </>
    ),
  },
  { head: 'Last 12', width: '162px', className: css.last, cell: (j) => <Spark kinds={(j.recent ?? []).map(kindOf)} /> },
  { head: 'Next due', width: '262px', from: 'tablet', cell: (j) => <Next job={j} /> },
  { head: 'Schedule', width: '16%', from: 'tablet', cell: (j) => <span title={`${scheduleText(j.schedule)}, ${j.zone}`}>{short(j)}</span> },
  { head: 'Queue', width: '8%', from: 'desktop', cell: (j) => <Link to="/queues/$queue"
    params={{ queue: j.queue ?? 'default' }}>{j.queue ?? 'default'}</Link> },
  {
    head: 'Target', width: '14%', from: 'desktop',
    cell: (j) => (
      <span title={targetText(j.target)}>
        <span className={css.kind}>{j.target.kind}</span><span className="dim">{targetText(j.target)}</span>
      </span>
    ),
  },
  { head: 'Labels', width: '11%', from: 'wide', cell: (j) => <Labels labels={j.labels ?? {}} /> },
];

function Labels({ labels }: { labels: Record<string, string> }) {
  const all = Object.entries(labels).map(([k, v]) => `${k}=${v}`).sort();
  if (all.length === 0) return null;
  return <span className={css.labels} title={all.join('\n')}><Tag>{all[0]}</Tag>{all.length > 1 && <Tag>+{all.length - 1}</Tag>}</span>;
}
