import { splitList } from '../../lib/labels';
import type { Search } from '../../lib/search';
import { parseDuration } from '../../lib/time';

const dueKeys = ['due', 'due_from', 'due_to'];
const otherKeys = ['name', 'state', 'label', 'queue', 'target'];

/** The search parameters that filter the list. */
export const filterKeys = [...otherKeys, ...dueKeys];

export type JobsQuery = {
  name?: string; state?: 'active' | 'paused' | 'finished'; label?: string[]; queue?: string; target?: string;
  due_from?: string; due_to?: string;
};

const states = ['active', 'paused', 'finished'] as const;

/** Before any due time: with it, the API orders by due time and leaves nothing out. */
const always = '1970-01-01T00:00:00Z';

/** The request of the list. The API orders by due time as soon as a due time is part of the filter. */
export function jobsQuery(url: Search, now: number): JobsQuery {
  const q: JobsQuery = {};
  if (url.name) q.name = url.name;
  const state = states.find((s) => s === url.state);
  if (state) q.state = state;
  const labels = splitList(url.label).filter((l) => l.includes('='));
  if (labels.length > 0) q.label = labels;
  if (url.queue) q.queue = url.queue;
  if (url.target) q.target = url.target;
  if (url.due_from) q.due_from = url.due_from;
  if (url.due_to) q.due_to = url.due_to;
  const within = parseDuration(url.due ?? '');
  if (within > 0) q.due_to = new Date(now + within).toISOString();
  if (byDue(url) && !q.due_from && !q.due_to) q.due_from = always;
  return q;
}

/** What may be added: a list by due time has no other filter. A URL with both is shown with both, to remove one. */
export function offered(url: Search): { due: boolean; other: boolean } {
  const other = otherKeys.some((k) => url[k]);
  return { due: byDue(url) || !other, other: other || !byDue(url) };
}

export const byDue = (url: Search): boolean => url.order === 'due' || parseDuration(url.due ?? '') > 0 || !!url.due_from || !!url.due_to;

/** The same filter for a bulk action, and in words. It knows no due times; see bulkBlocked. */
export function bulkFilter(url: Search): { body: Record<string, unknown>; words: [string, string][] } {
  const { due_from: _from, due_to: _to, ...q } = jobsQuery({ ...url, order: undefined, due: undefined }, 0);
  const words: [string, string][] = [];
  if (q.name) words.push(['Name', `contains ${q.name}`]);
  if (q.state) words.push(['State', q.state]);
  for (const l of q.label ?? []) words.push(['Label', l]);
  if (q.queue) words.push(['Queue', q.queue]);
  if (q.target) words.push(['Target', q.target]);
  if (words.length === 0) return { body: { all: true }, words: [['Filter', 'none: every job of the namespace']] };
  return { body: { filter: q }, words };
}

/** Why a bulk action cannot act on all that match. */
export const bulkBlocked = (url: Search): string | undefined =>
  byDue({ ...url, order: undefined }) ? 'Remove the filter by due time to choose all that match' : undefined;
