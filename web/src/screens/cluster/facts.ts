import type { Schemas } from '../../api/client';
import { capped, count, plural } from '../../lib/number';
import { duration } from '../../lib/time';

export type Cluster = Schemas['Cluster'];
export type Node = Schemas['Node'];
export type Owner = Schemas['PartitionOwner'];
export type Broken = Schemas['BrokenSchedules'];

/** After how long a due run makes its partition late. */
export const lateAfter = 1000;

export type CellState = 'owned' | 'late' | 'unowned';

/** The state of a partition by the clock of the database. */
export function stateOf(owner: Owner, now: number): CellState {
  if (owner.node === undefined) return 'unowned';
  return lag(owner, now) > lateAfter ? 'late' : 'owned';
}

/** How long the oldest due run of a partition waits, in milliseconds; 0: there is none. */
export const lag = (owner: Owner, now: number): number => (owner.oldest_due_at ? Math.max(0, now - Date.parse(owner.oldest_due_at)) : 0);

/** What a partition is, in words. */
export function describe(partition: number, cluster: Cluster): string {
  const owner = cluster.owners[partition]!;
  const now = Date.parse(cluster.database_time);
  const node = owner.node === undefined ? undefined : cluster.nodes[owner.node];
  const who = node ? `owned by ${node.name}` : 'no owner';
  const late = lag(owner, now);
  return `Partition ${partition}, ${who}${late > lateAfter ? `, oldest due run ${duration(late)} late` : ''}`;
}

/** The look of an owner: one of five shades and one of four patterns. The first twenty nodes differ. */
export const looks = 20;
export const look = (node: number): { shade: number; pattern: number } => ({
  shade: 1 + ((node * 2) % 5),
  pattern: Math.floor((node % looks) / 5),
});

export const distinct = (values: string[]): string[] => [...new Set(values.filter(Boolean))];

export type Finding = { tone: 'bad' | 'warn'; text: string; link?: 'broken' };

/** What needs somebody, the worst first. */
export function findings(c: Cluster, broken: Broken | undefined): Finding[] {
  const out: Finding[] = [];
  const now = Date.parse(c.database_time);
  if (c.clock_in_doubt)
    out.push({ tone: 'bad', text: 'The clock of the database is in doubt: nodes start nothing until it is confirmed. See belfry clock.' });
  if (c.nodes.length === 0) out.push({ tone: 'bad', text: 'No node is alive: nothing is planned and nothing starts.' });
  else if (c.unowned.length > 0)
    out.push({
      tone: 'bad',
      text: `${plural(c.unowned.length, 'partition')} of ${count(c.partitions)} without an owner: runs of their jobs wait.`,
    });
  const late = c.owners.filter((o) => stateOf(o, now) === 'late');
  if (late.length > 0) {
    const worst = Math.max(...late.map((o) => lag(o, now)));
    const are = late.length === 1 ? 'partition is' : 'partitions are';
    out.push({
      tone: 'warn',
      text: `${capped(late.length, c.lag_more)} ${are} late: the oldest due run waits ${duration(worst)}.`,
    });
  }
  if (broken && broken.items.length > 0) {
    const noun = broken.items.length === 1 && !broken.partial ? 'schedule' : 'schedules';
    out.push({
      tone: 'bad',
      link: 'broken',
      text: `${capped(broken.items.length, broken.partial)} ${noun} cannot be planned.`,
    });
  }
  const versions = distinct(c.nodes.map((n) => n.version));
  if (versions.length > 1)
    out.push({
      tone: 'warn',
      text: `Nodes have ${versions.length} versions: ${versions.join(', ')}. That is normal during an upgrade only.`,
    });
  if (distinct(c.nodes.map((n) => n.tzdata)).length > 1)
    out.push({ tone: 'warn', text: 'Nodes have different time zone rules: they may compute different times for a schedule.' });
  const full = c.nodes.filter((n) => n.slots && n.slots_free === 0);
  if (full.length > 0)
    out.push({
      tone: 'warn',
      text: `${full
        .map((n) => n.name)
        .slice(0, 3)
        .join(', ')} ${full.length === 1 ? 'has' : 'have'} no free slot: due runs wait for one.`,
    });
  const { connections, max_connections: most } = c.database;
  if (most > 0 && connections > most * 0.9)
    out.push({ tone: 'warn', text: `${connections} of ${most} connections of the database are in use.` });
  return out;
}
