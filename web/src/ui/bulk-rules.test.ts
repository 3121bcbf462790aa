import fc from 'fast-check';
import { expect, test } from 'vitest';
import { blockedBy } from './bulk-rules';

const state = { count: 3 as number | undefined, more: false, rate: '50', typed: '', many: 'jobs' };

test('nothing starts before the server has counted, or without a match', () => {
  expect(blockedBy({ ...state, count: undefined })).toBe('Counting…');
  expect(blockedBy({ ...state, count: 0 })).toBe('No jobs match');
  expect(blockedBy(state)).toBeUndefined();
});

test('a rate that the API refuses is refused here', () => {
  for (const rate of ['', '0', '-1', '1.5', '1001', 'x']) expect(blockedBy({ ...state, rate })).toContain('rate');
});

test('above 1,000 exactly the count must be typed', () => {
  fc.assert(fc.property(fc.integer({ min: 1001, max: 10_000_000 }), fc.string(), (count, typed) => {
    const free = typed.replace(/[,\s]/g, '') === String(count);
    expect(blockedBy({ ...state, count, typed }) === undefined).toBe(free);
    expect(blockedBy({ ...state, count, typed: count.toLocaleString('en-US') })).toBeUndefined();
  }));
});
