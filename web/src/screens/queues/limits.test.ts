import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { changesOf, formOf, limitsOf, named, problemsOf, share, troubles, type Limits, type Queue, heldBy } from './limits';

const limits: fc.Arbitrary<Limits> = fc
  .record(
    {
      max_running: fc.integer({ min: 1, max: 10_000 }),
      rate: fc.tuple(fc.integer({ min: 1, max: 99_999 }), fc.constantFrom('s', 'm', 'h')).map(([n, u]) => `${n}/${u}`),
      burst: fc.integer({ min: 1, max: 1_000_000 }),
    },
    { requiredKeys: [] },
  )
  .map((l) => {
    if (!l.rate) delete l.burst;
    return l;
  });

describe('limits of a queue', () => {
  it('come out of the form as they went in', () => {
    fc.assert(
      fc.property(limits, (l) => {
        expect(problemsOf(formOf(l))).toEqual({});
        expect(limitsOf(formOf(l))).toEqual(l);
        expect(changesOf(l, limitsOf(formOf(l)))).toEqual([]);
      }),
    );
  });
  it('list each change once, and none that stays', () => {
    fc.assert(
      fc.property(limits, limits, (a, b) => {
        const names = changesOf(a, b).map((c) => c.name);
        expect(new Set(names).size).toBe(names.length);
        expect(names.includes('Rate')).toBe(a.rate !== b.rate);
        for (const c of changesOf(a, b)) expect(c.before).not.toBe(c.after);
      }),
    );
  });
  it('say what a removed limit becomes', () => {
    expect(changesOf({ max_running: 10, rate: '5/s' }, { rate: '5/s' })).toEqual([
      { name: 'Maximum running', before: '10', after: 'no limit' },
    ]);
  });
  it('are checked before they are sent', () => {
    expect(problemsOf({ max_running: '-1', rate: 'fast', burst: '2' })).toHaveProperty('max_running');
    expect(problemsOf({ max_running: '', rate: 'fast', burst: '' })).toHaveProperty('rate');
    expect(problemsOf({ max_running: '', rate: '', burst: '2' })).toEqual({ burst: 'Only with a rate.' });
  });
});

it('a share stays within the bar', () => {
  fc.assert(
    fc.property(fc.integer(), fc.integer(), (n, most) => {
      expect(share(n, most)).toBeGreaterThanOrEqual(0);
      expect(share(n, most)).toBeLessThanOrEqual(1);
    }),
  );
});

it('names are short in a sentence', () => {
  expect(named(['a'])).toBe('a');
  expect(named(['a', 'b'])).toBe('a and b');
  expect(named(['a', 'b', 'c'])).toBe('a, b and c');
  expect(named(['a', 'b', 'c', 'd', 'e'])).toBe('a, b and 3 more');
});

it('only queues with due runs and no worker are in trouble', () => {
  const counts = { due: 2, running: 0, waiting: 0, planned_1m: 0, planned_1m_more: false, workers: 0, more: false };
  const queue = (name: string, handlers: string[]): Queue => ({
    name,
    paused: false,
    created_at: '',
    counts: { ...counts, handlers_without_worker: handlers },
  });
  expect(troubles([queue('a', []), queue('b', ['x'])]).map((t) => t.queue)).toEqual(['b']);
});

it('says what holds due runs back', () => {
  const planned = { planned_1m: 0, planned_1m_more: false };
  const counts = { due: 153, running: 0, waiting: 150, ...planned, workers: 0, more: false, handlers_without_worker: [] };
  const q = (more: object, c: object = {}, handler?: string) =>
    heldBy({ name: 'q', paused: false, ...more, counts: { ...counts, ...c } } as never, handler);
  expect(q({ paused: true })).toBe('the queue is paused');
  expect(q({ rate: '30/m' })).toBe('limited by its rate, 30/m: about 5 min for those that wait');
  expect(q({ max_running: 5 }, { running: 5 })).toBe('limited to 5 running');
  expect(q({}, { handlers_without_worker: ['a', 'c'] }, 'a')).toBe('no worker for a');
  expect(q({}, { handlers_without_worker: ['a', 'c'] }, 'b')).toBeUndefined();
  expect(q({ rate: '30/m' }, { handlers_without_worker: ['a', 'c'] }, 'b')).toContain('30/m');
  expect(q({ paused: true }, { due: 0, waiting: 0 })).toBeUndefined();
});
