import fc from 'fast-check';
import { expect, test } from 'vitest';
import { joinList } from '../../lib/labels';
import { bulkBlocked, bulkFilter, byDue, jobsQuery, offered } from './filter';

const now = Date.parse('2026-03-30T12:00:00Z');

test('no filter asks for all jobs in the order of creation', () => {
  expect(jobsQuery({}, now)).toEqual({});
});

test('the order by due time is a due time before all others', () => {
  expect(jobsQuery({ order: 'due' }, now)).toEqual({ due_from: '1970-01-01T00:00:00Z' });
  expect(jobsQuery({ order: 'due', due: '1h' }, now)).toEqual({ due_to: '2026-03-30T13:00:00.000Z' });
});

test('a list by due time and other filters are not offered together', () => {
  expect(offered({})).toEqual({ due: true, other: true });
  for (const url of [{ order: 'due' }, { due: '1h' }, { due_from: '2026-05-01T00:00:00Z' }])
    expect(offered(url)).toEqual({ due: true, other: false });
  expect(offered({ queue: 'mail' })).toEqual({ due: false, other: true });
  expect(offered({ queue: 'mail', order: 'due' }), 'one of them can be removed').toEqual({ due: true, other: true });
});

test('what the API would refuse is not sent', () => {
  expect(jobsQuery({ state: 'broken', label: 'nokey', due: 'soon' }, now)).toEqual({});
});

test('each filter of the URL is in the request and in the words of a bulk action', () => {
  const text = fc.string({ minLength: 1, maxLength: 20 });
  const url = fc.record({ name: text, queue: text, target: text, labels: fc.array(fc.tuple(text, text), { maxLength: 3 }) },
    { requiredKeys: [] });
  fc.assert(fc.property(url, (u) => {
    const labels = (u.labels ?? []).map(([k, v]) => `${k}=${v}`);
    const params = { name: u.name, queue: u.queue, target: u.target, label: joinList(labels) };
    const q = jobsQuery(params, now);
    expect([q.name, q.queue, q.target, q.label ?? []]).toEqual([u.name, u.queue, u.target, labels]);
    const { body, words } = bulkFilter({ ...params, order: 'due' });
    expect(body).toEqual(Object.keys(q).length > 0 ? { filter: q } : { all: true });
    expect(words.length).toBe(Math.max(1, Object.values(q).flat().length));
    expect(byDue(params)).toBe(false);
  }));
});

test('a list by due time cannot be acted on as a whole, for the API has no such filter', () => {
  expect(bulkBlocked({ due: '1h' })).toBeDefined();
  expect(bulkBlocked({ due_to: '2026-05-01T00:00:00Z' })).toBeDefined();
  expect(bulkBlocked({ order: 'due', name: 'x' })).toBeUndefined();
});
