import fc from 'fast-check';
import { expect, test } from 'vitest';
import { joinList } from '../../lib/labels';
import { bulkFilter, endedStates, liveStates, modeOf, runsQuery, seenAttempts } from './filter';

const now = Date.parse('2026-03-30T12:00:00Z');

test('without a filter the list shows what is in progress', () => {
  expect(modeOf({})).toBe('live');
  expect(runsQuery({}, now)).toEqual({ state: ['due', 'running', 'accepted', 'retrying'] });
});

test('links from other screens choose the mode by the state', () => {
  expect(modeOf({ state: 'failed' })).toBe('ended');
  expect(modeOf({ state: 'due' })).toBe('live');
  expect(modeOf({ job: 'job_1' })).toBe('all');
  expect(runsQuery({ state: 'failed', within: '1h' }, now)).toEqual({ state: ['failed'], ended_from: '2026-03-30T11:00:00.000Z' });
});

test('a request never combines live and ended states, unless it is of one job', () => {
  const states = fc.subarray([...liveStates, ...endedStates]);
  const text = fc.constantFrom(undefined, 'x');
  const mode = fc.constantFrom(undefined, 'live', 'ended', 'all');
  fc.assert(fc.property(states, text, text, mode, (chosen, job, reason, m) => {
    const q = runsQuery({ state: joinList(chosen), job, reason, mode: m }, now);
    const live = (q.state ?? []).some((s) => liveStates.includes(s));
    const ended = (q.state ?? []).some((s) => endedStates.includes(s));
    if (!job) expect(live && ended).toBe(false);
    if (!job && q.reason) expect(live).toBe(false); // a live run has no reason
  }));
});

test('only live runs are cancelled, and only ended ones run again', () => {
  fc.assert(fc.property(fc.subarray([...liveStates, ...endedStates]), fc.constantFrom(undefined, 'x'), (chosen, job) => {
    const url = { state: joinList(chosen), job };
    for (const s of bulkFilter(url, now, 'cancel').filter.state!) expect(liveStates).toContain(s);
    for (const s of bulkFilter(url, now, 'retry').filter.state!) expect(endedStates).toContain(s);
  }));
});

test('runs that are run again are those that were seen', () => {
  const rows = [{ id: 'a', attempt: 3 }, { id: 'b', attempt: 0 }, { id: 'c', attempt: 1 }];
  expect(seenAttempts(['c', 'b'], rows)).toEqual({ attempts: [1, 0] });
  expect(seenAttempts(['a', 'gone'], rows)).toEqual({});
});
