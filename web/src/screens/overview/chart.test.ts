import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ceiling, decades, laneMark, logShare, tick } from './chart';

it('the axis ends at or above the largest bar', () => {
  fc.assert(fc.property(fc.nat(10_000_000), (n) => {
    const top = ceiling(n);
    expect(top).toBeGreaterThanOrEqual(n);
    if (n > 1) expect(top).toBeLessThanOrEqual(2.5 * n);
  }));
});

it('lateness stays within its chart', () => {
  fc.assert(fc.property(fc.double({ min: 0, max: 1e7, noNaN: true }), (ms) => {
    expect(logShare(ms, 1e4)).toBeGreaterThanOrEqual(0);
    expect(logShare(ms, 1e4)).toBeLessThanOrEqual(1);
  }));
});

it('the lane shows late runs first: they have no other mark', () => {
  const m = { at: '', counted: true, started: 9, succeeded: 0, failed: 1, skipped: 1, missed: 1, late: 1, cancelled: 0, incomplete: false };
  expect(laneMark(m)).toBe('late');
  expect(laneMark({ ...m, late: 0 })).toBe('failed');
  expect(laneMark({ ...m, late: 0, failed: 0 })).toBe('missed');
  expect(laneMark({ ...m, late: 0, failed: 0, missed: 0 })).toBe('skipped');
  expect(laneMark({ ...m, late: 0, failed: 0, missed: 0, skipped: 0 })).toBeNull();
});

it('the scale of lateness has up to three lines, the highest at its end', () => {
  fc.assert(fc.property(fc.integer({ min: 2, max: 9 }), (e) => {
    const lines = decades(10 ** e);
    expect(lines[0]).toBe(10 ** e);
    expect(lines.length).toBeGreaterThan(1);
    expect(lines.length).toBeLessThanOrEqual(3);
    for (const ms of lines) expect(tick(ms).length).toBeLessThanOrEqual(6);
  }));
  expect(decades(100).map(tick)).toEqual(['100 ms', '10 ms']);
  expect(decades(100_000).map(tick)).toEqual(['100 s', '1 s', '10 ms']);
});
