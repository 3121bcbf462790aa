import type { Schemas } from '../../api/client';
import { brief, changes, type Definition } from '../../lib/definition';
import { compactExact, isObject, parseExact, type Exact } from '../../lib/json';
import type { Search } from '../../lib/search';
import { parseDuration } from '../../lib/time';

export type Entry = Schemas['AuditEntry'];
export type Row = { field: string; before?: string; after: string };

export const filterKeys = ['actor', 'action', 'object', 'range', 'from', 'to'] as const;

/** The kinds of objects and their actions, for the filter. */
export const actions = [
  'job',
  'job.create',
  'job.update',
  'job.pause',
  'job.resume',
  'job.trigger',
  'job.backfill',
  'job.delete',
  'run',
  'run.cancel',
  'run.retry',
  'dead_letter',
  'operation',
  'queue',
  'queue.pause',
  'queue.resume',
  'queue.limit',
  'key',
  'key.create',
  'key.revoke',
  'secret',
  'secret.set',
  'session',
];

/** An instant of a filter as the API reads it: a date begins at midnight UTC. undefined: it is none. */
export function instant(text: string | undefined): string | undefined {
  const t = text?.trim();
  if (!t) return undefined;
  const at = Date.parse(/^\d{4}-\d\d-\d\d$/.test(t) ? `${t}T00:00:00Z` : t);
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

/** The query of the list. A relative range ends now, and wins over `from`. */
export function auditQuery(url: Search, now: number): Record<string, string> {
  const out: Record<string, string> = {};
  for (const k of ['actor', 'action', 'object'] as const) if (url[k]) out[k] = url[k];
  const span = url.range ? parseDuration(url.range) : NaN;
  const from = Number.isNaN(span) ? instant(url.from) : new Date(now - span).toISOString();
  if (from) out.from = from;
  const to = instant(url.to);
  if (to) out.to = to;
  return out;
}

/** A string is shown as it is. One that is empty, or begins with a quote, has quotes: no two strings look the same. */
const string = (v: string): string => (v === '' || v.startsWith('"') ? JSON.stringify(v) : v);
const text = (v: Exact | undefined): string => (v === undefined ? 'none' : typeof v === 'string' ? string(v) : compactExact(v));

/** The detail of an entry, field by field. A field with before and after is a change. */
export function rowsOf(detail: unknown): Row[] {
  const tree = parseExact(JSON.stringify(detail ?? {}));
  if (!isObject(tree)) return [{ field: 'detail', after: text(tree) }];
  return Object.keys(tree).map((field) => {
    const v = tree[field]!;
    if (isObject(v) && ('before' in v || 'after' in v)) return { field, before: text(v.before), after: text(v.after) };
    return { field, after: text(v) };
  });
}

/** The detail in one line: "note=moved, version=3". */
export const summary = (detail: unknown): string =>
  rowsOf(detail)
    .filter((r) => r.field !== 'name' && r.after !== '""')
    .map((r) => `${r.field}=${r.after}`)
    .join(', ');

/** The rows of an entry against those of an earlier one about the same object. Fields that only the earlier one has are gone. */
export function against(earlier: unknown, later: unknown): Row[] {
  const [a, b] = [new Map(rowsOf(earlier).map((r) => [r.field, r.after])), new Map(rowsOf(later).map((r) => [r.field, r.after]))];
  const out: Row[] = [];
  for (const field of new Set([...a.keys(), ...b.keys()])) {
    if (a.get(field) === b.get(field)) continue;
    out.push({ field, before: a.get(field) ?? 'none', after: b.get(field) ?? 'none' });
  }
  return out;
}

/** The fields in which two definitions of a job differ. */
export function versionRows(before: Definition, after: Definition): Row[] {
  return changes(before, after).map((c) => {
    const field = c.path.join('.');
    return { field, before: brief(c.before, field), after: brief(c.after, field) };
  });
}

/** The version of a job that an entry made. */
export function versionOf(e: Entry): number | null {
  if (!/^job\.(create|update|rollback|patch|replace)$/.test(e.action)) return null;
  const v = (e.detail as { version?: unknown } | null)?.version;
  return typeof v === 'number' ? v : null;
}

/** Where an object is shown; null: nowhere. */
export function pathOf(e: Pick<Entry, 'action' | 'object'>): string | null {
  if (e.object.startsWith('job_')) return `/jobs/${e.object}`;
  if (e.object.startsWith('run_')) return `/runs/${e.object}`;
  if (e.object.startsWith('op_')) return `/operations/${e.object}`;
  if (e.action.startsWith('queue.')) return `/queues/${encodeURIComponent(e.object)}`;
  if (e.action.startsWith('secret.')) return '/settings?tab=secrets';
  return null;
}

/** The name of the object, if the detail has it. */
export const nameOf = (e: Entry): string => {
  const name = (e.detail as { name?: unknown } | null)?.name;
  return typeof name === 'string' && name ? name : e.object;
};

export type Verified = { entries: number; hash: string; problem: string; done: boolean };

/** Adds the answer for one part of the chain. */
export function addPart(part: { ok: boolean; entries: number; hash?: string; problem?: string; next_page_token?: string }): Verified {
  return {
    entries: part.entries,
    hash: part.hash ?? '',
    problem: part.ok ? '' : (part.problem ?? 'The log was changed.'),
    done: !part.ok || !part.next_page_token,
  };
}
