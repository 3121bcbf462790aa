import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TimelineItem } from '../../api/jobs';
import { day, hour, minute, second } from '../../lib/time';
import {
  gapOf, layout, most, noCounts, outcomeOf, outcomes, rangeOf, stack, stepFor, wasDropped, weight, zoomFor, zooms, type Zoom,
} from './columns';

const start = Date.parse('2026-03-01T00:00:00Z');
const states = ['succeeded', 'failed', 'cancelled', 'skipped', 'planned', 'running', 'accepted', 'retrying', 'due', 'pending', 'paused',
  'forgotten', 'archived', 'unknown'];
const reasons = [undefined, 'missed_window', 'unplanned', 'overlap', 'calendar', 'attempts'];

/** Random numbers from a seed: fast-check alone would take a minute for ten thousand timelines. */
function random(seed: number): (below: number) => number {
  let x = seed | 1;
  return (below) => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return ((x ^ (x >>> 13)) >>> 0) % below;
  };
}

// A timeline: a range from minutes to a year, with up to 500 occurrences in it.
const timeline = fc.record({ seed: fc.integer(), minutes: fc.integer({ min: 10, max: 400 * 24 * 60 }),
  count: fc.nat(500) }).map(({ seed, minutes, count }) => {
  const pick = random(seed);
  const to = start + minutes * minute;
  const items = Array.from({ length: count }, (): TimelineItem => {
    const due_at = new Date(start + pick(minutes) * minute + pick(60_000)).toISOString();
    const reason = reasons[pick(reasons.length)];
    const n = [undefined, 1, 2, 1000][pick(4)];
    return { due_at, local: due_at, origin: 'schedule', state: states[pick(states.length)]!, ...(reason ? { reason } : {}),
      ...(n ? { count: n } : {}) };
  });
  return { from: start, to, items };
});

const berlin = (at: number) => (at < Date.parse('2026-03-29T01:00:00Z') ? hour : 2 * hour);

// Plain checks: an expect for each of a million columns would take minutes.
const check = (ok: boolean, what: string) => {
  if (!ok) throw new Error(what);
};

test('each occurrence has exactly one mark, and columns have the counts of their items', () => {
  fc.assert(fc.property(timeline, fc.boolean(), (t, zone) => {
    const columns = layout(t, zone ? berlin : undefined);
    check(columns.every((c, i) => i === 0 || columns[i - 1]!.at <= c.at), 'the columns are in the order of time');
    const singles = columns.filter((c) => c.kind === 'one');
    if (t.items.length <= most) {
      check(singles.length === t.items.length && new Set(singles.map((c) => c.item)).size === t.items.length,
        'one column for each occurrence');
      check(t.items.length === 0 || columns.filter((c) => c.kind !== 'one').every((c) => c.kind === 'none'
        && !singles.some((s) => s.at >= c.at && s.at < c.to && !zone)), 'other columns are times without an occurrence');
      return;
    }
    check(singles.length === 0, 'no occurrence has a column besides');
    const want = noCounts();
    for (const i of t.items) want[outcomeOf(i)] += weight(i);
    const got = noCounts();
    for (const c of columns) if (c.kind === 'many') for (const key of outcomes) got[key] += c.counts[key];
    for (const key of outcomes) check(got[key] === want[key], `${key}: ${got[key]} in columns, ${want[key]} in items`);
  }), { numRuns: 10_000 });
}, 120_000);

test('an item is in the column of its time', () => {
  fc.assert(fc.property(timeline, (t) => {
    fc.pre(t.items.length > most);
    const times = t.items.map((i) => ({ at: Date.parse(i.due_at), n: weight(i) }));
    for (const c of layout(t)) {
      if (c.kind !== 'many') throw new Error('one column for many items');
      let want = 0;
      for (const x of times) if (x.at >= c.at && x.at < c.to) want += x.n;
      check(c.total === want, `${c.total} in the column, ${want} in its time`);
    }
  }), { numRuns: 300 });
}, 60_000);

test('buckets of the server keep their sums, and there are never too many columns', () => {
  const bucket = fc.record({
    n: fc.integer({ min: 0, max: 199 }), succeeded: fc.nat(1000), failed: fc.nat(9), skipped: fc.nat(9), missed: fc.nat(9),
      cancelled: fc.nat(9), live: fc.nat(9),
    planned: fc.nat(1000), paused: fc.nat(9), archived: fc.nat(9), unknown: fc.nat(9),
  });
  fc.assert(fc.property(fc.array(bucket, { maxLength: 200 }), fc.integer({ min: 1, max: 24 }), (list, hours) => {
    const buckets = list.map(({ n, ...counts }) => ({
      ...counts, from: new Date(start + n * hours * hour).toISOString(), to: new Date(start + (n + 1) * hours * hour).toISOString(),
    }));
    const columns = layout({ from: start, to: start + 200 * hours * hour, items: [], buckets });
    for (const key of outcomes) {
      expect(columns.reduce((n, c) => n + (c.kind === 'many' ? c.counts[key] : 0), 0)).toBe(buckets.reduce((n, b) => n + b[key], 0));
    }
    expect(columns.length).toBeLessThanOrEqual(most + 1);
  }));
});

test('a bar shows each outcome that occurs and fills its height', () => {
  fc.assert(fc.property(fc.array(fc.nat(100_000), { minLength: outcomes.length, maxLength: outcomes.length }), (n) => {
    const counts = Object.fromEntries(outcomes.map((k, i) => [k, n[i]!])) as never;
    const total = n.reduce((a, b) => a + b, 0);
    const parts = stack(counts, total, 60);
    expect(parts.map((p) => p.key).toSorted()).toEqual(outcomes.filter((_, i) => n[i]! > 0).toSorted());
    for (const p of parts) expect(p.size).toBeGreaterThanOrEqual(3);
    if (parts.some((p) => p.key === 'planned')) expect(parts[parts.length - 1]!.key, 'what is done stands on the axis').toBe('planned');
    if (total > 0) expect(parts.reduce((a, p) => a + p.size, 0)).toBeCloseTo(60, 6);
  }));
});

test('the zoom fits how often a job runs', () => {
  expect([10 * second, 15 * minute, 6 * hour, day, 7 * day, undefined].map(zoomFor)).toEqual(['hour', 'hour', 'week', 'month', 'year',
    'month']);
  expect(zoomFor(30 * minute)).toBe('day');
  expect(stepFor(0, hour)).toBe(minute);
  expect(stepFor(0, zooms.week)).toBe(3 * hour);
  expect(gapOf([0, 10, 20, 21, 30])).toBe(10);
  expect(gapOf([5])).toBeUndefined();
});

test('the range in view has the length of its zoom and contains what was asked for', () => {
  fc.assert(fc.property(fc.constantFrom<Zoom>('hour', 'day', 'week', 'month', 'year'), fc.integer({ min: -400 * day, max: 400 * day }),
    (zoom, by) => {
    const at = start + by;
    const r = rangeOf(zoom, start, undefined, at);
    expect(r.to - r.from).toBe(zooms[zoom]);
    expect(at >= r.from && at < r.to).toBe(true);
    const there = rangeOf(zoom, at, undefined, undefined, berlin);
    expect(at >= there.from && at < there.to).toBe(true);
    if (zoom === 'month') expect((there.from + berlin(there.from)) % day, 'it begins at midnight in the zone').toBe(0);
    const own = rangeOf(zoom, start);
    expect(start >= own.from && start < own.to).toBe(true);
  }));
});

test('only history that was dropped is said to be missing', () => {
  const [before, from] = ['2026-10-26T02:00:00Z', '2026-11-17T00:00:00Z'];
  const item = (due_at: string, run?: string) => ({ due_at, state: 'succeeded', ...(run ? { run } : {}) });
  const dropped = (created: string, ...items: object[]) => wasDropped({ from: before, history_from: from, items: items as never }, created);
  expect(dropped('2026-01-01T00:00:00Z')).toBe(true);
  expect(dropped('2026-01-01T00:00:00Z', item(before))).toBe(true); // the schedule had it, and its run is gone
  expect(dropped('2026-01-01T00:00:00Z', item(before, 'run_1'))).toBe(false);
  expect(dropped('2026-11-17T09:00:00Z')).toBe(false); // the job is new
  expect(wasDropped({ from, history_from: before, items: [] }, '2026-01-01T00:00:00Z')).toBe(false);
});

test('a time without an occurrence has a column, such as today', () => {
  const [from, to] = [Date.parse('2026-11-01T00:00:00Z'), Date.parse('2026-12-01T00:00:00Z')];
  const items = ['01', '08', '15', '22', '29'].map((d) => ({
    due_at: `2026-11-${d}T02:00:00Z`, local: `2026-11-${d}T02:00:00Z`, origin: 'schedule', state: 'succeeded',
  }));
  const columns = layout({ from, to, items: items as never });
  expect(columns).toHaveLength(60); // half days
  expect(columns.filter((c) => c.kind === 'one')).toHaveLength(5);
  const now = Date.parse('2026-11-18T15:00:00Z');
  expect(columns.some((c) => c.kind === 'none' && c.at <= now && c.to > now)).toBe(true);
});
