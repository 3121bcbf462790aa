import type { Timeline, TimelineBucket, TimelineItem } from '../../api/jobs';
import { count } from '../../lib/number';
import {
  clock, date, day, duration, hour, localParts, longDate, minute, offset as offsetText, second, type ZoneMode,
} from '../../lib/time';
import { kindOf, word } from '../../ui/mark';

// How occurrences become columns. Up to `most` items in view have a column each, so that every occurrence can be chosen. More are
// put together into columns of equal time, with a count per outcome. Nothing is left out and nothing is counted twice. Times without an
// occurrence have columns too, so that today is there, and can be asked about.

export const most = 60;

export const outcomes = [
  'failed', 'missed', 'unknown', 'skipped', 'cancelled', 'paused', 'archived', 'live', 'succeeded', 'planned',
] as const;
export type OutcomeKey = (typeof outcomes)[number];
export type Counts = Record<OutcomeKey, number>;

export type OneColumn = { kind: 'one'; at: number; item: TimelineItem };
export type ManyColumn = { kind: 'many'; at: number; to: number; counts: Counts; total: number; slowest: number };
/** A time without an occurrence. */
export type NoColumn = { kind: 'none'; at: number; to: number };
export type TimelineColumn = OneColumn | ManyColumn | NoColumn;

export const noCounts = (): Counts => Object.fromEntries(outcomes.map((k) => [k, 0])) as Counts;

/** The outcome of an item, as buckets count it. A missed occurrence is a skip that no rule of the user asked for. */
export function outcomeOf(item: Pick<TimelineItem, 'state' | 'reason'>): OutcomeKey {
  switch (item.state) {
    case 'succeeded': case 'failed': case 'cancelled': return item.state;
    case 'skipped': return /^(missed|unplanned)/.test(item.reason ?? '') ? 'missed' : 'skipped';
    case 'planned': case 'pending': return 'planned';
    case 'paused': return 'paused';
    case 'archived': return 'archived';
    case 'forgotten': case 'unknown': return 'unknown';
    default: return 'live';
  }
}

/** How many occurrences an item stands for: a range of skipped ones has a count. */
export const weight = (item: Pick<TimelineItem, 'count'>): number => Math.max(1, item.count ?? 1);

/** Whether history of this time was dropped. That of a new job begins with it. */
export const wasDropped = (t: Pick<Timeline, 'from' | 'history_from' | 'items'>, created: string): boolean =>
  t.history_from > t.from && created < t.history_from && !t.items.some((i) => i.due_at < t.history_from && i.run);

const steps = [
  second, 5 * second, 10 * second, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour,
  4 * hour, 6 * hour, 12 * hour,
  day, 2 * day, 7 * day, 14 * day, 28 * day,
];

/** The shortest step that leaves at most `most` columns between two instants. */
export const stepFor = (from: number, to: number): number => steps.find((s) => (to - from) / s <= most) ?? 28 * day;

type Input = { from: number; to: number; items: TimelineItem[]; buckets?: TimelineBucket[] | undefined };

/**
 * The columns of a timeline in the order of time. `offset` gives the milliseconds from UTC to the zone of the job at an instant: days and
 * hours begin when they do there.
 */
export function layout({ from, to, items, buckets }: Input, offset: (at: number) => number = () => 0): TimelineColumn[] {
  const step = stepFor(from, to);
  const slot = (at: number) => Math.floor((at + offset(at)) / step);
  if (!buckets?.length && items.length <= most) {
    const ones = items.map((item): OneColumn => ({ kind: 'one', at: Date.parse(item.due_at), item }));
    if (ones.length === 0) return [];
    const taken = new Set(ones.map((c) => slot(c.at)));
    const none: NoColumn[] = [];
    for (let at = from; at < to; at += step) {
      const begin = slot(at) * step - offset(at);
      if (!taken.has(slot(at))) none.push({ kind: 'none', at: begin, to: begin + step });
    }
    return [...ones, ...none].sort((a, b) => a.at - b.at);
  }
  const columns = new Map<number, ManyColumn>();
  const column = (at: number): ManyColumn => {
    const n = slot(at);
    let c = columns.get(n);
    if (!c) {
      const start = n * step - offset(at);
      c = { kind: 'many', at: start, to: start + step, counts: noCounts(), total: 0, slowest: 0 };
      columns.set(n, c);
    }
    return c;
  };
  // Every column of the range is there, also an empty one: equal widths are equal times.
  for (let at = from, n = 0; at < to && n <= most; at += step, n++) column(at);
  for (const item of items) {
    const c = column(Date.parse(item.due_at));
    c.counts[outcomeOf(item)] += weight(item);
    c.total += weight(item);
    c.slowest = Math.max(c.slowest, item.duration_ms ?? 0);
  }
  for (const b of buckets ?? []) {
    const c = column(Date.parse(b.from));
    for (const key of outcomes) {
      c.counts[key] += b[key];
      c.total += b[key];
    }
  }
  return [...columns.values()].sort((a, b) => a.at - b.at);
}

/** Heights of the parts of a stacked bar, from the bottom. Each outcome that occurs can be seen; together they fill the bar. */
export function stack(counts: Counts, total: number, height: number, least = 3): { key: OutcomeKey; size: number }[] {
  const present = outcomes.filter((k) => counts[k] > 0);
  if (total === 0 || present.length === 0) return [];
  const room = Math.max(height - least * present.length, 0);
  // What is done stands on the axis.
  const upwards = present.toReversed().toSorted((a, b) => Number(a === 'planned') - Number(b === 'planned'));
  return upwards.map((key) => ({ key, size: least + (room * counts[key]) / total }));
}

export type Zoom = 'hour' | 'day' | 'week' | 'month' | 'year';

export const zooms: Record<Zoom, number> = { hour, day, week: 7 * day, month: 35 * day, year: 364 * day };

/** The longest zoom in which a job with this distance between occurrences has a column for each. */
export function zoomFor(gap: number | undefined): Zoom {
  if (!gap) return 'month';
  const names: Zoom[] = ['year', 'month', 'week', 'day'];
  return names.find((z) => zooms[z] / gap <= most) ?? 'hour';
}

const unit: Record<Zoom, number> = { hour: 5 * minute, day: hour, week: 12 * hour, month: day, year: 7 * day };

/**
 * The range in view: from where the URL says, or around an instant with two thirds before it. It begins at a full unit of the zone that is
 * shown, which `offset` tells.
 */
export function rangeOf(
  zoom: Zoom, now: number, from?: number, around?: number, offset: (at: number) => number = () => 0,
): { from: number; to: number } {
  const length = zooms[zoom];
  if (from !== undefined && !Number.isNaN(from)) return { from, to: from + length };
  const begin = (at: number) => {
    const local = Math.floor((at + offset(at) - (length * 2) / 3) / unit[zoom]) * unit[zoom];
    return local - offset(local - offset(at)); // the clock may have changed in between
  };
  const start = begin(now);
  if (around !== undefined && (around < start || around >= start + length)) {
    const other = begin(around);
    return { from: other, to: other + length };
  }
  return { from: start, to: start + length };
}

/** The usual distance between occurrences: the median of those that are known. */
export function gapOf(times: number[]): number | undefined {
  const sorted = [...new Set(times)].sort((a, b) => a - b);
  const gaps = sorted.slice(1).map((t, i) => t - sorted[i]!).sort((a, b) => a - b);
  return gaps[Math.floor(gaps.length / 2)];
}

/** A column in words, for screen readers and the tooltip. */
export function columnText(c: TimelineColumn, zone: string, mode: ZoneMode): string {
  if (c.kind !== 'one') {
    const parts = c.kind === 'none' ? [] : outcomes.filter((k) => c.counts[k] > 0).map((k) => `${count(c.counts[k])} ${k}`);
    const end = c.to - c.at >= day ? `${date(c.to, zone)}` : clock(c.to, zone, c.to - c.at < minute);
    const begin = `${date(c.at, zone)} ${clock(c.at, zone, c.to - c.at < minute)}`;
    return `${begin} to ${end}: ${parts.length > 0 ? parts.join(', ') : 'no occurrence'}`;
  }
  const i = c.item;
  const what = [word[kindOf(i)] + (i.reason && i.state !== 'succeeded' ? `: ${i.reason}` : '')];
  if ((i.count ?? 1) > 1) what.push(`${count(i.count!)} occurrences`);
  if (i.duration_ms) what.push(`took ${duration(i.duration_ms)}`);
  const mark = markOf(i);
  if (mark) what.push(mark.text);
  return `${itemTime(i, zone, mode)}, ${what.join(', ')}`;
}

const clockText: Record<string, string> = {
  shifted: 'moved by a clock change', first_pass: 'the first of two equal times', second_pass: 'the second of two equal times',
};

/** What a clock change or a calendar did to an occurrence. */
export function markOf(i: Pick<TimelineItem, 'mark' | 'nominal' | 'reason'>): { kind: 'clock' | 'calendar'; text: string } | undefined {
  if (i.mark) return { kind: 'clock', text: (clockText[i.mark] ?? i.mark) + (i.nominal ? ` from ${i.nominal.slice(11, 16)}` : '') };
  if (i.reason === 'dst_gap') return { kind: 'clock', text: 'this time did not exist' };
  if (i.reason === 'calendar') return { kind: 'calendar', text: 'excluded by a calendar' };
  return undefined;
}

/** "Fri 27 Mar 2026, 02:30 +01": the server's text in the zone of the job, or this browser's in another. */
export function itemTime(i: Pick<TimelineItem, 'due_at' | 'local'>, zone: string, mode: ZoneMode): string {
  if (mode === 'job' && i.local) {
    const p = localParts(i.local);
    return `${longDate(Date.parse(p.date + 'T00:00:00Z'))}, ${p.time}${p.seconds} ${p.offset}`;
  }
  const at = Date.parse(i.due_at);
  return `${longDate(at, zone)}, ${clock(at, zone, at % minute !== 0)} ${offsetText(at, zone)}`;
}
