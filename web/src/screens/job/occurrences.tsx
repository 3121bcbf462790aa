import { Link } from '@tanstack/react-router';
import { useContext, useState } from 'react';
import type { Timeline, TimelineBucket, TimelineItem } from '../../api/jobs';
import { count } from '../../lib/number';
import { clock } from '../../lib/time';
import { TextButton } from '../../ui/control';
import { kindOf, Mark, Outcome, reasonText, word } from '../../ui/mark';
import { Empty } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { Took, useZone, When, ZoneContext } from '../../ui/when';
import { itemTime, markOf, outcomes } from './columns';
import css from './job.module.css';

type Props = { timeline: Timeline; selected: number | undefined; choose: (at: string) => void; zoomTo: (from: number, to: number) => void };

/** How many of the future ones are listed at first. */
const soon = 2;

/** The timeline as a table: the same occurrences, newest first. */
export function Occurrences({ timeline, selected, choose, zoomTo }: Props) {
  const mode = useContext(ZoneContext);
  const zone = useZone(timeline.zone);
  const [future, setFuture] = useState(false);
  if (timeline.buckets?.length) return <Buckets buckets={timeline.buckets} zone={timeline.zone} zoomTo={zoomTo} />;
  const all = timeline.items.toReversed();
  const planned = all.filter((i) => Date.parse(i.due_at) > Date.parse(timeline.now));
  const rows = future ? all : all.slice(Math.max(0, planned.length - soon));
  if (rows.length === 0) return <Empty title="No occurrence in this time">Choose a longer time, or go to an earlier one.</Empty>;
  const columns: Column<TimelineItem>[] = [
    { head: `Due (${zone})`, width: '26%', className: css.dueColumn, cell: (i) =>
      <span className="num">{itemTime(i, zone, mode)}{i.last_due_at && <span className="dim"> and later</span>}</span> },
    { head: 'UTC', width: '90px', from: 'desktop', cell: (i) =>
      <span className="dim num">{clock(Date.parse(i.due_at), 'UTC', true)}Z</span> },
    { head: 'Outcome', width: '190px', className: css.outcomeColumn, cell: (i) =>
      <Outcome kind={kindOf(i)}>{word[kindOf(i)]}{(i.count ?? 1) > 1 && ` × ${count(i.count!)}`}</Outcome> },
    { head: 'Reason', from: 'tablet', cell: (i) => <Reason item={i} /> },
    { head: 'Started after', width: '110px', right: true, from: 'tablet', cell: (i) => <Took ms={i.lateness_ms} /> },
    { head: 'Took', width: '100px', right: true, from: 'tablet', cell: (i) => <Took ms={i.duration_ms} /> },
    { head: 'Attempts', width: '80px', right: true, from: 'desktop',
      cell: (i) => (i.attempt ? i.attempt : <span className="dim">–</span>) },
    { head: 'Version', width: '70px', right: true, from: 'desktop', cell: (i) => i.version ?? <span className="dim">–</span> },
    { head: 'Run', width: '56px', right: true, from: 'tablet', cell: (i) => i.run && i.state !== 'planned' && <Link to="/runs/$run"
      params={{ run: i.run }}>Open</Link> },
  ];
  return (
    <>
      {planned.length > soon && (
        <p className={css.note}>
          <TextButton onClick={() => setFuture(!future)}>{future ? 'Hide later ones'
            : `Show ${count(planned.length - soon)} that are due later`}</TextButton>
        </p>
      )}
      <Table label="Occurrences" virtual rows={rows} id={(i) => `${i.due_at} ${i.run ?? i.state}`} columns={columns}
        open={(i) => choose(i.due_at)}
        rowClass={(i) => (Date.parse(i.due_at) === selected ? css.chosen : undefined)} />
    </>
  );
}

function Reason({ item }: { item: TimelineItem }) {
  const mark = markOf(item);
  return (
    <span className={css.reason}>
      {item.state !== 'succeeded' && item.reason && !mark && <span title={item.reason}>{reasonText(item.reason)}</span>}
      {item.origin && item.origin !== 'schedule'
        && <span className="dim">{item.origin === 'missed' ? 'caught up' : `by ${item.origin}`}</span>}
      {(item.attempt ?? 0) > 1 && item.state === 'succeeded'
        && <span className="dim">after {item.attempt! - 1} {item.attempt === 2 ? 'retry' : 'retries'}</span>}
      {mark && <span className="dim row"><Mark kind={mark.kind} size={10} label="" /><span className="clip">{mark.text}</span></span>}
    </span>
  );
}

const total = (b: TimelineBucket): number => outcomes.reduce((n, k) => n + (b[k]), 0);

function Buckets({ buckets, zone, zoomTo }: { buckets: TimelineBucket[]; zone: string; zoomTo: (from: number, to: number) => void }) {
  const rows = buckets.filter((b) => total(b) > b.planned).toReversed();
  const planned = buckets.reduce((n, b) => n + b.planned, 0);
  const seconds = buckets.some((b) => Date.parse(b.from) % 60_000 !== 0);
  const used = outcomes.filter((k) => rows.some((b) => (b[k]) > 0));
  const columns: Column<TimelineBucket>[] = [
    { head: 'From', width: '190px', cell: (b) => <When at={b.from} zone={zone} utc={false} seconds={seconds} /> },
    ...used.map((k): Column<TimelineBucket> => ({
      head: k.slice(0, 1).toUpperCase() + k.slice(1), right: true,
      cell: (b) => ((b[k]) > 0 ? <span className={k === 'failed' ? 'bad' : k === 'missed' ? 'warn' : ''}>{count(b[k])}</span>
        : <span className="dim">0</span>),
    })),
  ];
  return (
    <>
      <p className={css.note}>Too many to list one by one. Choose a row to see its occurrences.{planned > 0
        && ` ${count(planned)} are planned in this time.`}</p>
      <Table label="Occurrences by time" virtual rows={rows} id={(b) => b.from} columns={columns}
        open={(b) => zoomTo(Date.parse(b.from), Date.parse(b.to))} />
    </>
  );
}
