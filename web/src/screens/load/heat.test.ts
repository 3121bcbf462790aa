import fc from 'fast-check';
import { expect, it } from 'vitest';
import { median, move, rowsOf, scaleOf, shade } from './heat';

const begin = Date.UTC(2026, 2, 30, 12, 31);

const load = fc.record({
  from: fc.nat(2000).map((n) => begin + n * 60_000),
  counts: fc.array(fc.nat(100_000), { minLength: 1, maxLength: 1500 }),
});

it('each minute of the range is one cell, at its place', () => {
  fc.assert(
    fc.property(load, ({ from, counts }) => {
      const cells = rowsOf(from, counts)
        .flatMap((r) => r.cells.map((c, i) => [r.hour + i * 60_000, c] as const))
        .filter(([, c]) => c);
      expect(cells.map(([, c]) => c!.count)).toEqual(counts);
      for (const [at, c] of cells) expect(c!.at).toBe(at);
    }),
  );
});

it('arrow keys reach every cell and never leave the range', () => {
  fc.assert(
    fc.property(
      load,
      fc.array(fc.constantFrom('ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End', 'PageUp', 'PageDown')),
      ({ from, counts }, keys) => {
        const rows = rowsOf(from, counts);
        let at = from;
        for (const k of keys) at = move(rows, at, k) ?? at;
        expect(at).toBeGreaterThanOrEqual(from);
        expect(at).toBeLessThan(from + counts.length * 60_000);
      },
    ),
  );
});

it('shades grow with the count, from 1 for the smallest to 5 for the largest', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(1e6), { minLength: 1, maxLength: 50 }), (counts) => {
      const scale = scaleOf(counts);
      const sorted = counts.toSorted((a, b) => a - b).map((n) => shade(n, scale));
      expect(sorted).toEqual(sorted.toSorted());
      for (const n of counts) expect(shade(n, scale)).toBe(n === 0 ? 0 : Math.max(1, Math.min(5, shade(n, scale))));
      if (scale.top > scale.low) expect(shade(scale.top, scale)).toBe(5);
    }),
  );
  expect(shade(63, scaleOf([63, 63, 63]))).toBe(1);
  expect(shade(11, scaleOf([1, 100], 10))).toBe(6);
  expect(shade(21, scaleOf([1, 100], 10))).toBe(7);
});

it('the median is in the middle', () => {
  expect(median([3, 1, 2])).toBe(2);
  expect(median([4, 1, 2, 3])).toBe(2.5);
  expect(median([])).toBe(0);
});
