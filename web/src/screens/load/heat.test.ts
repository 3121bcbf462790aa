import fc from 'fast-check';
import { expect, it } from 'vitest';
import { median, move, rowsOf, shade } from './heat';

const begin = Date.UTC(2026, 2, 30, 12, 31);

const load = fc.record({
  from: fc.nat(2000).map((n) => begin + n * 60_000),
  counts: fc.array(fc.nat(100_000), { minLength: 1, maxLength: 1500 }),
});

it('each minute of the range is one cell, at its place', () => {
  fc.assert(fc.property(load, ({ from, counts }) => {
    const cells = rowsOf(from, counts).flatMap((r) => r.cells.map((c, i) => [r.hour + i * 60_000, c] as const)).filter(([, c]) => c);
    expect(cells.map(([, c]) => c!.count)).toEqual(counts);
    for (const [at, c] of cells) expect(c!.at).toBe(at);
  }));
});

it('arrow keys reach every cell and never leave the range', () => {
  fc.assert(fc.property(load, fc.array(fc.constantFrom('ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End', 'PageUp', 'PageDown')), ({ from, counts }, keys) => {
    const rows = rowsOf(from, counts);
    let at = from;
    for (const k of keys) at = move(rows, at, k) ?? at;
    expect(at).toBeGreaterThanOrEqual(from);
    expect(at).toBeLessThan(from + counts.length * 60_000);
  }));
});

it('shades grow with the count', () => {
  fc.assert(fc.property(fc.nat(1e6), fc.nat(1e6), (a, b) => {
    const top = Math.max(a, b);
    expect(shade(Math.min(a, b), top)).toBeLessThanOrEqual(shade(top, top));
    expect(shade(top, top)).toBeLessThanOrEqual(5);
  }));
  expect(shade(0, 10)).toBe(0);
  expect(shade(11, 100, 10)).toBe(6);
  expect(shade(21, 100, 10)).toBe(7);
});

it('the median is in the middle', () => {
  expect(median([3, 1, 2])).toBe(2);
  expect(median([4, 1, 2, 3])).toBe(2.5);
  expect(median([])).toBe(0);
});
