import type { Schemas } from '../../api/client';
import { splitList } from '../../lib/labels';
import type { Search } from '../../lib/search';
import { parseDuration } from '../../lib/time';

export type RunState = Schemas['RunState'];

export const liveStates: RunState[] = ['due', 'running', 'accepted', 'retrying', 'pending'];
export const endedStates: RunState[] = ['succeeded', 'failed', 'skipped', 'cancelled'];

/** What the list shows by default: what is late or in progress, not all that is planned. */
const activeStates: RunState[] = ['due', 'running', 'accepted', 'retrying'];

export const filterKeys = ['state', 'job', 'queue', 'reason', 'within', 'ended_from', 'ended_to', 'due_from', 'due_to'];

/** The API has two orders: live runs in no order of time, and ended ones by the time of their end. Of one job it lists both by due time. */
export type Mode = 'live' | 'ended' | 'all';

export type RunsQuery = {
  state?: RunState[]; job?: string; queue?: string; reason?: string;
  ended_from?: string; ended_to?: string; due_from?: string; due_to?: string;
};

export const statesOf = (url: Search): RunState[] => {
  const wanted = splitList(url.state);
  return [...liveStates, ...endedStates].filter((s) => wanted.includes(s));
};

export function modeOf(url: Search): Mode {
  const states = statesOf(url);
  if (url.mode === 'all' && url.job) return 'all';
  if (url.mode === 'live' || url.mode === 'ended') return url.mode;
  if (states.length > 0) {
    const live = states.some((s) => liveStates.includes(s));
    return live && states.some((s) => endedStates.includes(s)) && url.job ? 'all' : live ? 'live' : 'ended';
  }
  if (url.job) return 'all';
  return url.reason || url.within || url.ended_from || url.ended_to ? 'ended' : 'live';
}

/** The request of the list. */
export function runsQuery(url: Search, now: number): RunsQuery {
  const mode = modeOf(url);
  const states = statesOf(url).filter((s) => mode === 'all' || (mode === 'live' ? liveStates : endedStates).includes(s));
  const q: RunsQuery = {};
  if (states.length > 0) q.state = states;
  else if (mode === 'live') q.state = activeStates;
  else if (mode === 'ended' && url.job) q.state = endedStates;
  if (url.job) q.job = url.job;
  if (url.queue) q.queue = url.queue;
  if (url.reason && mode !== 'live') q.reason = url.reason;
  if (url.due_from) q.due_from = url.due_from;
  if (url.due_to) q.due_to = url.due_to;
  if (mode !== 'live') {
    if (url.ended_from) q.ended_from = url.ended_from;
    if (url.ended_to) q.ended_to = url.ended_to;
    const within = parseDuration(url.within ?? '');
    if (within > 0) q.ended_from = new Date(now - within).toISOString();
  }
  return q;
}

/** The filter of a bulk action, in the form of the API and in words. Live runs are cancelled, and ended ones run again. */
export function bulkFilter(url: Search, now: number, what: 'cancel' | 'retry'): { filter: RunsQuery; words: [string, string][] } {
  const q = runsQuery(url, now);
  const wanted = what === 'cancel' ? liveStates : endedStates;
  const chosen = (q.state ?? []).filter((s) => wanted.includes(s));
  const filter: RunsQuery = { ...q, state: chosen.length > 0 ? chosen : wanted };
  const words: [string, string][] = [['State', filter.state!.join(', ')]];
  if (filter.job) words.push(['Job', filter.job]);
  if (filter.queue) words.push(['Queue', filter.queue]);
  if (filter.reason) words.push(['Reason', filter.reason]);
  if (filter.due_from) words.push(['Due from', filter.due_from]);
  if (filter.due_to) words.push(['Due before', filter.due_to]);
  if (filter.ended_from) words.push(['Ended from', filter.ended_from]);
  if (filter.ended_to) words.push(['Ended before', filter.ended_to]);
  return { filter, words };
}

/** The last attempts of runs as the list shows them, so that a run that has run again since is not run once more. */
export function seenAttempts(ids: string[], rows: { id: string; attempt: number }[]): { attempts?: number[] } {
  const shown = new Map(rows.map((r) => [r.id, r.attempt]));
  const attempts = ids.map((id) => shown.get(id));
  return attempts.every((a) => a !== undefined) ? { attempts } : {};
}
