import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addPart, against, auditQuery, instant, pathOf, rowsOf, summary, versionOf, type Entry } from './entries';

const entry = (more: Partial<Entry>): Entry => ({
  seq: 1,
  at: '',
  actor: 'belfry',
  action: 'job.pause',
  object: 'job_1',
  detail: {},
  hash: '',
  ...more,
});

describe('filters', () => {
  const now = Date.parse('2026-03-30T12:00:00Z');
  it('read dates as midnight, and ignore what is no time', () => {
    expect(instant('2026-03-01')).toBe('2026-03-01T00:00:00.000Z');
    expect(instant('2026-03-01T10:00:00+02:00')).toBe('2026-03-01T08:00:00.000Z');
    expect(instant('soon')).toBeUndefined();
  });
  it('a relative range ends now', () => {
    expect(auditQuery({ range: '24h', from: '2020-01-01', actor: 'ci' }, now)).toEqual({ actor: 'ci', from: '2026-03-29T12:00:00.000Z' });
    expect(auditQuery({ from: '2026-03-01', to: 'nonsense' }, now)).toEqual({ from: '2026-03-01T00:00:00.000Z' });
    expect(auditQuery({}, now)).toEqual({});
  });
});

describe('details', () => {
  it('are listed by field, changes with both values', () => {
    expect(rowsOf({ note: 'moved', rate: { before: '1/s', after: '5/s' } })).toEqual([
      { field: 'note', after: 'moved' },
      { field: 'rate', before: '1/s', after: '5/s' },
    ]);
    expect(summary({ name: 'x', note: 'moved', version: 3 })).toBe('note=moved, version=3');
  });
  it('against an earlier entry show exactly what differs', () => {
    const detail = fc.dictionary(fc.constantFrom('max_running', 'rate', 'burst', 'note'), fc.oneof(fc.integer(), fc.string()));
    fc.assert(
      fc.property(detail, detail, (a, b) => {
        const fields = against(a, b).map((r) => r.field);
        for (const k of new Set([...Object.keys(a), ...Object.keys(b)])) {
          const same = JSON.stringify(a[k]) === JSON.stringify(b[k]);
          if (!same && typeof a[k] === typeof b[k]) expect(fields).toContain(k);
          if (same) expect(fields).not.toContain(k);
        }
      }),
      { examples: [[{ note: '' }, { note: '""' }]] },
    );
  });
});

it('objects have a page where there is one', () => {
  expect(pathOf(entry({}))).toBe('/jobs/job_1');
  expect(pathOf(entry({ action: 'queue.pause', object: 'a b' }))).toBe('/queues/a%20b');
  expect(pathOf(entry({ action: 'key.create', object: 'key_1' }))).toBeNull();
});

it('only changes of a definition have a version', () => {
  expect(versionOf(entry({ action: 'job.update', detail: { version: 4 } }))).toBe(4);
  expect(versionOf(entry({ detail: { version: 4 } }))).toBeNull();
});

it('a broken chain ends the check', () => {
  expect(addPart({ ok: true, entries: 10, hash: 'h', next_page_token: 't' })).toMatchObject({ done: false, problem: '' });
  expect(addPart({ ok: true, entries: 12, hash: 'h' })).toMatchObject({ done: true, hash: 'h' });
  expect(addPart({ ok: false, entries: 2, problem: 'entry 3' })).toMatchObject({ done: true, problem: 'entry 3' });
});
