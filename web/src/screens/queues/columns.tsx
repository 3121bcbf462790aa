import { Link } from '@tanstack/react-router';
import { capped } from '../../lib/number';
import { Tag } from '../../ui/control';
import { Mark } from '../../ui/mark';
import type { Column } from '../../ui/table';
import { Ago } from '../../ui/when';
import { now } from '../../lib/time';
import { LimitBar } from './bar';
import type { Queue } from './limits';
import css from './queues.module.css';

/** A count as a link to the runs behind it. Zero is not worth a click. */
export function RunCount({ n, more, queue, state }: { n: number; more: boolean; queue: string; state: string }) {
  if (n === 0 && !more) return <span className="dim">0</span>;
  return (
    <Link to="/runs" search={{ state, queue } as never}>
      {capped(n, more)}
      <span className="sr"> runs, {state}</span>
    </Link>
  );
}

/** Since when the oldest due run waits. */
export function Oldest({ queue }: { queue: Queue }) {
  const c = queue.counts;
  if (!c?.oldest_due_at) return <span className="dim">–</span>;
  const old = now() - Date.parse(c.oldest_due_at) > 10_000;
  return (
    <span className={`${css.oldest} ${old && !queue.paused ? 'warn' : ''}`}>
      {old && !queue.paused && <Mark kind="late" size={10} label="Late:" />}
      <Ago at={c.oldest_due_at} />
    </span>
  );
}

export function Workers({ queue }: { queue: Queue }) {
  const c = queue.counts;
  if (!c) return null;
  const bad = c.handlers_without_worker.length > 0;
  return (
    <Link
      to="/queues/$queue"
      params={{ queue: queue.name }}
      hash="workers"
      className={`${css.oldest} ${bad ? 'bad' : c.workers === 0 ? 'dim' : ''}`}
    >
      {bad && <Mark kind="failed" size={10} label="A handler has no worker:" />}
      {c.workers}
      <span className="sr"> {c.workers === 1 ? 'worker' : 'workers'}</span>
    </Link>
  );
}

export const columns: Column<Queue>[] = [
  {
    head: 'Queue',
    cell: (q) => (
      <span className={css.name}>
        <Link to="/queues/$queue" params={{ queue: q.name }} className={css.link}>
          {q.name}
        </Link>
        {q.paused && <Tag>Paused</Tag>}
        {q.paused && q.note && (
          <span className={`${css.note} dim`} title={q.note}>
            {q.note}
          </span>
        )}
      </span>
    ),
  },
  {
    head: 'Due',
    width: '64px',
    right: true,
    cell: (q) => q.counts && <RunCount n={q.counts.due} more={q.counts.more} queue={q.name} state="due" />,
  },
  { head: 'Oldest due', width: '100px', right: true, cell: (q) => <Oldest queue={q} /> },
  {
    head: 'Running',
    width: '150px',
    cell: (q) =>
      q.counts && (
        <Link to="/runs" search={{ state: 'running', queue: q.name } as never} className={css.plain}>
          <LimitBar used={q.counts.running} more={q.counts.more} limit={q.max_running} label="Running" />
        </Link>
      ),
    from: 'tablet',
  },
  {
    head: 'Waiting',
    width: '76px',
    right: true,
    from: 'tablet',
    cell: (q) => (q.counts?.waiting ? capped(q.counts.waiting, q.counts.more) : <span className="dim">0</span>),
  },
  { head: 'Rate limit', width: '96px', right: true, from: 'desktop', cell: (q) => q.rate ?? <span className="dim">none</span> },
  {
    head: 'Next minute',
    width: '100px',
    right: true,
    from: 'desktop',
    cell: (q) => q.counts && <RunCount n={q.counts.planned_1m} more={q.counts.planned_1m_more} queue={q.name} state="pending" />,
  },
  { head: 'Workers', width: '76px', right: true, cell: (q) => <Workers queue={q} /> },
];
