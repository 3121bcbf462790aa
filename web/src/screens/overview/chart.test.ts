import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ceiling, decades, laneMark, logShare, tick, noticed, segments, skippedRuns } from './chart';

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
  expect([1e6, 1e9].map(tick)).toEqual(['17 min', '278 h']);
  expect(decades(100_000).map(tick)).toEqual(['100 s', '1 s', '10 ms']);
});

it('says when it was noticed what was missed, and leaves gaps in the line', () => {
  const at = (i: number, missed: number) => ({ at: new Date(i * 60_000).toISOString(), missed }) as never;
  expect(noticed([at(0, 0), at(1, 3), at(2, 0), at(3, 4)])).toBe('Noticed from 00:01 to 00:03 UTC.');
  expect(noticed([at(0, 0), at(1, 3)])).toBe('Noticed at 00:01 UTC.');
  expect(noticed([at(0, 0)])).toBe('');
  expect(segments([1, 2, undefined, 3])).toEqual([[[0, 1], [1, 2]], [[3, 3]]]);
});

it('the numbers of skipped runs lead to what they count', () => {
  const counted = ['missed', 'overlap', 'missed_max', 'expired'].map((reason) => ({ reason, count: 1 }));
  expect(skippedRuns(counted, true).reason).toBe('missed,missed_max');
  expect(skippedRuns(counted, false).reason).toBe('overlap,expired');
  expect(skippedRuns([], false)).toEqual({ state: 'skipped', within: '1h' });
});
