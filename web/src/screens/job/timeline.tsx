import { useElementSize } from '@mantine/hooks';
import { useContext, useEffect, useMemo, useRef, type KeyboardEvent } from 'react';
import type { Timeline } from '../../api/jobs';
import { count } from '../../lib/number';
import { clock } from '../../lib/time';
import { kindOf, Mark, word, type Kind } from '../../ui/mark';
import { useZone, ZoneContext } from '../../ui/when';
import { every, nowAt, ticks } from './axis';
import {
  columnText, layout, markOf, outcomes, stack, type ManyColumn, type OneColumn, type OutcomeKey, type TimelineColumn,
} from './columns';
import css from './timeline.module.css';

type Props = {
  timeline: Timeline;
  /** Milliseconds from UTC to the zone in which times are shown. */
  offset: (at: number) => number;
  /** The due time of the occurrence that is chosen. */
  selected: number | undefined;
  choose: (at: string) => void;
  zoomTo: (from: number, to: number) => void;
};

const barHeight = 60;

/** The occurrences of a job as columns of equal width. Arrow keys move, Enter chooses. */
export function TimelineView({ timeline, offset, selected, choose, zoomTo }: Props) {
  const mode = useContext(ZoneContext);
  const zone = useZone(timeline.zone);
  const { ref, width } = useElementSize<HTMLDivElement>();
  const grid = useRef<HTMLDivElement>(null);
  const [from, to, now] = [Date.parse(timeline.from), Date.parse(timeline.to), Date.parse(timeline.now)];
  const columns = useMemo(() => layout({ from, to, items: timeline.items, buckets: timeline.buckets }, offset),
    [timeline, offset, from, to]);
  const labels = useMemo(() => ticks(columns, zone, mode), [columns, zone, mode]);
  const flags = useMemo(() => versionFlags(columns, timeline.versions), [columns, timeline.versions]);
  const chosen = columns.findIndex((c) => c.kind === 'one' && c.at === selected);
  const line = nowAt(columns, now, from, to);
  const most = Math.max(1, ...columns.map((c) => (c.kind === 'many' ? c.total : 0)));
  const slowest = Math.max(1, ...columns.map((c) => (c.kind === 'one' ? c.item.duration_ms ?? 0 : 0)));
  const long = labels.some((l) => l.bottom.length > 2);
  const step = every(columns.length, Math.min(Math.max(width, columns.length * 19), columns.length * 72), long ? 44 : 19);

  // On a narrow screen the columns scroll: what is chosen, or now, is in view.
  const at = chosen >= 0 ? chosen : Math.min(Math.floor(line ?? 0), columns.length - 1);
  useEffect(() => {
    const box = grid.current?.parentElement;
    const column = grid.current?.querySelectorAll<HTMLElement>('[data-column]')[at];
    if (box && column && box.scrollWidth > box.clientWidth) box.scrollLeft = column.offsetLeft - box.clientWidth / 2;
    // Once per range, not with each poll.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [timeline.from, timeline.to, columns.length > 0]);

  const move = (e: KeyboardEvent) => {
    const all = [...(grid.current?.querySelectorAll<HTMLElement>('[data-column]') ?? [])];
    const i = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: all.length - 1 }[e.key];
    if (i < 0 || next === undefined || !all[next]) return;
    e.preventDefault();
    all[next].focus();
  };
  if (columns.length === 0) return <p className={css.none}>No occurrence in this time.</p>;
  return (
    <div className={css.scroll} ref={ref}>
      <div ref={grid} role="group" aria-label="Occurrences in the order of time; arrow keys move" className={css.grid} onKeyDown={move}
        style={{ gridTemplateColumns: `repeat(${columns.length}, minmax(var(--least), 72px))`, maxWidth: columns.length * 72 }}>
        {columns.map((c, i) => {
          const props = {
            key: `${c.at}-${c.kind === 'one' ? c.item.run ?? i : ''}`, 'data-column': true, tabIndex: i === (chosen >= 0 ? chosen : at) ? 0
              : -1,
            className: `${css.column} ${unread(c, timeline) ? css.unread : c.at > now ? css.future : ''}`,
          };
          const { key, ...rest } = props;
          const text = columnText(c, zone, mode) + (unread(c, timeline) ? ' that was read; choose a shorter time' : '');
          return (
            <button type="button" key={key} {...rest} title={text} aria-pressed={c.kind === 'one' ? i === chosen : undefined}
              onClick={() => (c.kind === 'many' ? zoomTo(c.at, c.to)
                : choose(c.kind === 'one' ? c.item.due_at : new Date(c.at).toISOString()))}>
              <span className="sr">{text}{flags[i] ? `, version ${flags[i]}` : ''}</span>
              <span className={css.group} aria-hidden="true">{labels[i]!.group}</span>
              <span className={css.flags} aria-hidden="true">{flags[i] && <i>v{flags[i]}</i>}<Marks column={c} /></span>
              {c.kind === 'one' && <One column={c} slowest={slowest} />}
              {c.kind === 'many' && <Many column={c} most={most} />}
              {c.kind === 'none' && <span className={css.nothing} aria-hidden="true" />}
              <span className={css.tick} aria-hidden="true" data-long={long || undefined}>
                <span>{labels[i]!.top}</span><b>{i % step === 0 && (!long || i <= columns.length - step) ? labels[i]!.bottom : ''}</b>
              </span>
            </button>
          );
        })}
        {line !== undefined && (
          <span className={css.now} style={{ left: `${(line / columns.length) * 100}%` }}
            data-late={line > columns.length * 0.85 || undefined}>
            <span>now {clock(now, zone)}</span>
          </span>
        )}
      </div>
    </div>
  );
}

/** Whether a column is outside of the time that could be read. */
const unread = (c: TimelineColumn, t: Timeline): boolean =>
  c.kind === 'many' && ((!!t.covered_from && c.to <= Date.parse(t.covered_from)) || (!!t.covered_to && c.at >= Date.parse(t.covered_to)));

function Marks({ column }: { column: TimelineColumn }) {
  if (column.kind === 'none') return null;
  if (column.kind === 'many') {
    const { failed, missed, unknown } = column.counts;
    return failed > 0 ? <Mark kind="failed" size={9} label="" /> : missed + unknown > 0 ? <Mark kind="missed" size={9} label="" /> : null;
  }
  const mark = markOf(column.item);
  return mark ? <Mark kind={mark.kind} size={10} label="" /> : null;
}

function One({ column: { item }, slowest }: { column: OneColumn; slowest: number }) {
  const kind = kindOf(item);
  const ms = item.duration_ms ?? 0;
  const many = (item.count ?? 1) > 1;
  return (
    <>
      <span className={css.mark} aria-hidden="true"><Mark kind={kind} size={14} label="" />{many && <em>×{count(item.count!)}</em>}</span>
      <span className={css.bar} aria-hidden="true">
        {ms > 0 && <i data-kind={kind} style={{ height: `${Math.max(8, Math.sqrt(ms / slowest) * 100)}%` }} />}
      </span>
    </>
  );
}

function Many({ column, most }: { column: ManyColumn; most: number }) {
  const height = column.total === 0 ? 0 : Math.max(10, (column.total / most) * barHeight);
  return (
    <span className={css.stack} aria-hidden="true">
      {stack(column.counts, column.total, height).toReversed().map((p) => <i key={p.key} data-outcome={p.key}
        style={{ height: p.size }} />)}
    </span>
  );
}

/** Which version began to hold at which column. */
function versionFlags(columns: TimelineColumn[], versions: { version: number; at: string }[]): Record<number, number> {
  const flags: Record<number, number> = {};
  for (const v of versions.toSorted((a, b) => a.version - b.version)) {
    const at = Date.parse(v.at);
    const i = columns.findIndex((c) => (c.kind === 'one' ? c.at >= at : c.to > at));
    if (i >= 0 && v.version > 1) flags[i] = v.version;
  }
  return flags;
}

const legendKinds: Kind[] = ['succeeded', 'retried', 'failed', 'missed', 'skipped', 'cancelled', 'planned'];

const counted: Record<OutcomeKey, Kind> = {
  succeeded: 'succeeded', failed: 'failed', missed: 'missed', skipped: 'skipped', cancelled: 'cancelled', live: 'running',
    planned: 'planned',
  paused: 'paused', archived: 'archived', unknown: 'unknown',
};

const short: Partial<Record<Kind, string>> = { retried: 'after a retry', accepted: 'accepted', retrying: 'retrying', skipped: 'skipped' };

/** The marks that are in view, with their words. */
export function Legend({ timeline }: { timeline: Timeline }) {
  const kinds = new Set<Kind>(['succeeded']);
  for (const i of timeline.items) kinds.add(kindOf(i));
  for (const b of timeline.buckets ?? []) for (const o of outcomes) if (b[o] > 0) kinds.add(counted[o]);
  const marks = new Set(timeline.items.map((i) => markOf(i)?.kind));
  const shown = [...legendKinds.filter((k) => kinds.has(k)), ...[...kinds].filter((k) => !legendKinds.includes(k))];
  return (
    <ul className={css.legend} aria-label="Legend">
      {shown.map((k) => <li key={k}><Mark kind={k} size={10} label="" />{short[k] ?? word[k].toLowerCase()}</li>)}
      {marks.has('clock') && <li><Mark kind="clock" size={10} label="" />clock change</li>}
      {marks.has('calendar') && <li><Mark kind="calendar" size={10} label="" />calendar</li>}
      {timeline.items.some((i) => i.duration_ms) && <li><i className={css.took} />time taken</li>}
    </ul>
  );
}

