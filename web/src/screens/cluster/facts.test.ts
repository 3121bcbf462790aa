import fc from 'fast-check';
import { describe as group, expect, it } from 'vitest';
import { describe, findings, look, looks, stateOf, type Cluster, type Node } from './facts';

const now = '2026-03-30T12:00:00Z';
const node = (name: string, more: Partial<Node> = {}): Node => ({
  name,
  session: name,
  started_at: now,
  expires_at: now,
  draining: false,
  partitions: [],
  version: 'v1',
  tzdata: 'a',
  ...more,
});

function cluster(more: Partial<Cluster> = {}): Cluster {
  return {
    nodes: [node('one')],
    partitions: 256,
    unowned: [],
    owners: Array.from({ length: 256 }, () => ({ node: 0, epoch: 1 })),
    lag_more: false,
    schema_version: 17,
    database_time: now,
    clock_in_doubt: false,
    database: { version: '16', connections: 10, max_connections: 100 },
    version: 'v1',
    ...more,
  };
}

const before = (ms: number) => new Date(Date.parse(now) - ms).toISOString();

group('partitions', () => {
  it('are late after a second by the clock of the database', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000 }), (ms) => {
        const state = stateOf({ node: 0, epoch: 1, oldest_due_at: before(ms) }, Date.parse(now));
        expect(state).toBe(ms > 1000 ? 'late' : 'owned');
      }),
    );
  });
  it('without an owner say so, even if they are late', () => {
    const c = cluster({ unowned: [3], owners: cluster().owners.map((o, i) => (i === 3 ? { epoch: 4, oldest_due_at: before(5000) } : o)) });
    expect(stateOf(c.owners[3]!, Date.parse(now))).toBe('unowned');
    expect(describe(3, c)).toBe('Partition 3, no owner, oldest due run 5 s late');
    expect(describe(4, c)).toBe('Partition 4, owned by one');
  });
});

it('the first twenty owners look different', () => {
  const seen = new Set(Array.from({ length: looks }, (_, i) => JSON.stringify(look(i))));
  expect(seen.size).toBe(looks);
});

group('findings', () => {
  const texts = (c: Cluster, broken?: Parameters<typeof findings>[1]) =>
    findings(c, broken)
      .map((f) => f.text)
      .join('\n');
  it('are none in a healthy cluster', () => expect(findings(cluster(), { items: [], partial: false })).toEqual([]));
  it('name what is wrong', () => {
    expect(texts(cluster({ unowned: [1, 2] }))).toContain('2 partitions of 256 without an owner');
    expect(texts(cluster({ nodes: [] }))).toContain('No node is alive');
    expect(texts(cluster({ nodes: [node('a'), node('b', { version: 'v2' })] }))).toContain('v1, v2');
    expect(texts(cluster({ nodes: [node('a'), node('b', { tzdata: 'z' })] }))).toContain('time zone rules');
    expect(texts(cluster({ nodes: [node('a', { slots: 10, slots_free: 0 })] }))).toContain('a has no free slot');
    expect(texts(cluster({ clock_in_doubt: true }))).toContain('in doubt');
    expect(texts(cluster({ database: { version: '16', connections: 95, max_connections: 100 } }))).toContain('95 of 100');
    const broken = { schedule: {}, problem: 'x', since: now, jobs: 1, more: false, sample: [] };
    expect(texts(cluster(), { items: [broken], partial: true })).toContain('1+ schedules cannot be planned');
  });
  it('say a lower bound as one', () => {
    const owners = cluster().owners.map((o, i) => (i < 2 ? { ...o, oldest_due_at: before(7000) } : o));
    expect(texts(cluster({ owners, lag_more: true }))).toContain('2+ partitions are late: the oldest due run waits 7 s.');
  });
});
