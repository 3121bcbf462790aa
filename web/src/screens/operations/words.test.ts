import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Schemas } from '../../api/client';
import { addSample, filterOf, left, speed, titleOf, type Sample } from './words';

type Operation = Schemas['Operation'];

const operation = (more: Partial<Operation>): Operation => ({
  id: 'op_1',
  kind: 'redrive',
  state: 'running',
  filter: {},
  rate: 10,
  count: 100,
  done: 0,
  failed: 0,
  progress: 0,
  created_by: 'x',
  created_at: '',
  ...more,
});

it('says what it works on', () => {
  expect(titleOf(operation({ count: 4213 }))).toBe('Redrive 4,213 dead letters');
  expect(titleOf(operation({ kind: 'pause', count: 1 }))).toBe('Pause 1 job');
  expect(titleOf(operation({ kind: 'cancel', count: 500, more: true }))).toBe('Cancel 500+ runs');
});

it('says the filter in words', () => {
  expect(filterOf({ queue: 'billing', failed_to: '2026-01-01', reason: '' })).toEqual([
    ['queue', 'billing'],
    ['failed before', '2026-01-01'],
  ]);
});

it('the speed is never negative, and samples are bounded', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: -5, max: 50 })), { maxLength: 200 }), (steps) => {
      let samples: Sample[] = [];
      let [at, done] = [0, 0];
      for (const [ms, n] of steps) {
        at += ms;
        done = Math.max(0, done + n);
        samples = addSample(samples, { at, done });
        const s = speed(samples);
        if (s !== null) expect(s).toBeGreaterThanOrEqual(0);
        expect(samples[samples.length - 1]!.at - samples[0]!.at).toBeLessThanOrEqual(30_000);
      }
    }),
  );
});

it('the time left is known only for a running operation with a speed', () => {
  expect(left(operation({ done: 50 }), 10)).toBe(5000);
  expect(left(operation({ done: 50 }), 0)).toBeNull();
  expect(left(operation({ state: 'finished' }), 10)).toBeNull();
  expect(left(operation({ more: true }), 10)).toBeNull();
});
