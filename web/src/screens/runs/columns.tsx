import { Link } from '@tanstack/react-router';
import { createContext, useContext } from 'react';
import type { Schemas } from '../../api/client';
import { count } from '../../lib/number';
import { Tag } from '../../ui/control';
import { kindOf, Outcome, reasonText, word, type Kind } from '../../ui/mark';
import type { Column } from '../../ui/table';
import { Ago, Took, When } from '../../ui/when';
import { now } from '../../lib/time';
import { heldBy, type Queue } from '../queues/limits';
import type { Mode } from './filter';
import css from './runs.module.css';

export type Run = Schemas['Run'];

const short: Partial<Record<Kind, string>> = { accepted: 'Accepted', retrying: 'Retrying', retried: 'Succeeded', skipped: 'Skipped' };

function State({ run }: { run: Run }) {
  const kind = kindOf(run);
  return (
    <span title={word[kind]}>
      <Outcome kind={kind}>{short[kind] ?? word[kind]}</Outcome>
      {run.percent !== undefined && run.state === 'running' && <span className="dim num"> {run.percent} %</span>}
    </span>
  );
}

const none = <span className="dim">–</span>;

const took = (r: Run): number | undefined => (r.started_at && r.ended_at ? Date.parse(r.ended_at) - Date.parse(r.started_at) : undefined);

/** The queues of due runs, by name. */
export const HeldContext = createContext<Record<string, Queue>>({});

function Detail({ run }: { run: Run }) {
  const queue = useContext(HeldContext)[run.queue];
  const why = run.progress ?? run.message ?? (run.state === 'due' && queue ? heldBy(queue, run.handler) : '') ?? '';
  return (
    <span title={run.message ?? run.progress}>
      {run.origin !== 'schedule' && <span className={css.origin}><Tag>{run.origin}</Tag></span>}
      {run.reason && <span className={css.reason} title={run.reason}>{reasonText(run.reason)}</span>}
      <span className="dim">{why}</span>
      {(run.count ?? 1) > 1 && <span className="dim"> {count(run.count!)} occurrences</span>}
    </span>
  );
}

const job: Column<Run> = {
  head: 'Job', width: '18%', className: css.name,
  cell: (r) => (
    <>
      <Link to="/jobs/$job" params={{ job: r.job }}
        title={r.job_name ?? r.job}>{r.job_name ?? <span className="dim">deleted {r.job}</span>}</Link>
      <span className={`phone ${css.under}`}><When at={r.due_at} utc={false} /> <span className="dim">{r.reason}</span></span>
    </>
  ),
};
const state: Column<Run> = {
  head: 'State', width: '132px',
  cell: (r) => (
    <Link to="/runs/$run" params={{ run: r.id }} className={css.state}>
      <State run={r} />{r.dead_letter && <span className="sr">, dead letter</span>}
    </Link>
  ),
};
const due: Column<Run> = { head: 'Due', width: '172px', from: 'tablet', cell: (r) => <When at={r.due_at} utc={false} seconds /> };
const attempt: Column<Run> = { head: 'Attempt', width: '72px', right: true, from: 'desktop', cell: (r) => r.attempt || none };
const queue: Column<Run> = {
  head: 'Queue', width: '11%', from: 'desktop', cell: (r) => <Link to="/queues/$queue" params={{ queue: r.queue }}>{r.queue}</Link>,
};
const detail: Column<Run> = { head: 'Reason and message', from: 'tablet', cell: (r) => <Detail run={r} /> };
const where: Column<Run> = { head: 'Where', width: '11%', from: 'wide', cell: (r) =>
  <span className="dim">{r.worker ?? r.node ?? r.handler ?? ''}</span> };

/** What matters depends on whether the runs are live. */
export function columnsOf(mode: Mode): Column<Run>[] {
  if (mode === 'live') {
    return [
      state, job, due,
      {
        head: 'Since', width: '104px', from: 'tablet',
        cell: (r) => <span className={waits(r) ? 'warn' : 'dim'}><Ago at={since(r)} /></span>,
      },
      attempt, queue, where, detail,
    ];
  }
  return [
    state, job, due,
    { head: 'Ended', width: '104px', from: 'tablet', cell: (r) => (r.ended_at ? <Ago at={r.ended_at} /> : none) },
    { head: 'Took', width: '84px', right: true, from: 'tablet', cell: (r) => <Took ms={took(r)} /> },
    attempt, queue, detail,
  ];
}

/** Since when a run is in its state. */
const since = (r: Run): string => (r.state === 'running' || r.state === 'accepted' ? r.started_at ?? r.run_at : r.run_at);

const waits = (r: Run): boolean => r.state === 'due' && now() - Date.parse(r.run_at) > 3000;
