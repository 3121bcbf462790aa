import fc from 'fast-check';
import { expect, test } from 'vitest';
import { tickStep, waterfall, type Attempt } from './waterfall';

const due = Date.parse('2026-03-17T01:30:00Z');
const iso = (ms: number) => new Date(ms).toISOString();

test('waits, attempts and retry delays follow each other without a gap', () => {
  const attempts: Attempt[] = [
    { attempt: 1, state: 'failed', started_at: iso(due + 3), ended_at: iso(due + 2143), message: '500' },
    { attempt: 2, state: 'failed', started_at: iso(due + 6754), ended_at: iso(due + 8134), message: '500' },
  ];
  const w = waterfall({ due_at: iso(due), run_at: iso(due), attempts }, due + 60_000);
  expect(w.rows.map((r) => [r.wait?.ms, r.bar?.ms, r.sameMessage])).toEqual([[3, 2140, false], [4611, 1380, true]]);
  expect(w.total).toBe(8134);
  expect(w.ticks.map((t) => t.ms)).toEqual([0, 2000, 4000, 6000, 8000]);
});

test('a run that was due long before it ran has an axis of its attempts', () => {
  const start = due + 6 * 86_400_000;
  const attempts: Attempt[] = [{ attempt: 1, state: 'succeeded', started_at: iso(start), ended_at: iso(start + 2000) }];
  const w = waterfall({ due_at: iso(due), run_at: iso(start), attempts }, start + 5000);
  expect([w.from, w.to, w.rows[0]!.wait, w.dueBefore]).toEqual([start, start + 2000, undefined, 6 * 86_400_000]);
});

test('everything is within the axis, whatever the times', () => {
  const step = fc.integer({ min: 0, max: 3_600_000 });
  const list = fc.array(fc.tuple(step, step), { minLength: 1, maxLength: 20 });
  fc.assert(fc.property(list, fc.boolean(), (parts, live) => {
    let at = due;
    const attempts = parts.map(([wait, took], i): Attempt => {
      const start = at + wait;
      at = start + took;
      const open = live && i === parts.length - 1;
      return { attempt: i + 1, state: open ? 'running' : 'failed', started_at: iso(start), ...(open ? {} : { ended_at: iso(at) }) };
    });
    const w = waterfall({ due_at: iso(due), run_at: iso(due), attempts }, at);
    expect(w.rows.length).toBe(attempts.length);
    for (const r of w.rows) {
      for (const b of [r.wait, r.bar]) {
        if (!b) continue;
        expect(b.left).toBeGreaterThanOrEqual(-1e-6);
        expect(b.left + b.width).toBeLessThanOrEqual(100 + 1e-6);
      }
    }
    expect(w.ticks.length).toBeLessThanOrEqual(7);
  }));
});

test('ticks are round', () => {
  expect([7, 900, 18_000, 100_000].map((s) => tickStep(s, 6))).toEqual([2, 200, 3000, 30_000]);
});
