import type { Schemas } from '../../api/client';
import { duration } from '../../lib/time';

export type Queue = Schemas['Queue'];
export type Limits = Schemas['QueueLimits'];

/** The limits of a queue as a form has them. */
export type LimitForm = { max_running: string; rate: string; burst: string };

export const formOf = (q: Limits): LimitForm => ({
  max_running: q.max_running ? String(q.max_running) : '',
  rate: q.rate ?? '',
  burst: q.burst ? String(q.burst) : '',
});

const whole = /^\d{1,9}$/;

/** What is wrong with the form, by field. The server has the last word. */
export function problemsOf(f: LimitForm): Partial<Record<keyof LimitForm, string>> {
  const out: Partial<Record<keyof LimitForm, string>> = {};
  if (f.max_running.trim() && !whole.test(f.max_running.trim())) out.max_running = 'A whole number, or empty for no limit.';
  if (f.rate.trim() && !/^\d{1,9}\/[smh]$/.test(f.rate.trim()))
    out.rate = 'A number per second, minute or hour, such as 100/s, 30/m or 1000/h.';
  if (f.burst.trim() && !whole.test(f.burst.trim())) out.burst = 'A whole number, or empty for the default.';
  else if (f.burst.trim() && !f.rate.trim()) out.burst = 'Only with a rate.';
  return out;
}

/** The limits to send. An absent limit is removed. */
export function limitsOf(f: LimitForm): Limits {
  const out: Limits = {};
  if (Number(f.max_running) > 0) out.max_running = Number(f.max_running);
  if (f.rate.trim()) out.rate = f.rate.trim();
  if (Number(f.burst) > 0) out.burst = Number(f.burst);
  return out;
}

const text = (value: string | number | undefined, none: string) => (value ? String(value) : none);

/** What a change of the limits replaces, in words. Limits that stay are not listed. */
export function changesOf(before: Limits, after: Limits): { name: string; before: string; after: string }[] {
  const rows: [string, string | number | undefined, string | number | undefined, string][] = [
    ['Maximum running', before.max_running, after.max_running, 'no limit'],
    ['Rate', before.rate, after.rate, 'no limit'],
    ['Burst', before.burst, after.burst, 'default'],
  ];
  return rows
    .filter(([, a, b]) => (a || undefined) !== (b || undefined))
    .map(([name, a, b, none]) => ({ name, before: text(a, none), after: text(b, none) }));
}

const perMs = { s: 1000, m: 60_000, h: 3_600_000 } as const;

/** What keeps the due runs of a queue, or of a handler, from starting, in words, as far as its state tells; undefined: nothing does. */
export function heldBy(q: Queue, handler = ''): string | undefined {
  const c = q.counts;
  if (!c || c.due + c.waiting === 0) return undefined;
  if (q.paused) return 'the queue is paused';
  if (c.handlers_without_worker.includes(handler)) return `no worker for ${handler}`;
  if (c.waiting === 0) return undefined;
  if (q.max_running && c.running >= q.max_running) return `limited to ${q.max_running} running`;
  const [, n, unit] = /^(\d+)\/([smh])$/.exec(q.rate ?? '') ?? [];
  if (!n) return undefined;
  const left = (c.waiting / Number(n)) * perMs[unit as keyof typeof perMs];
  return `limited by its rate, ${q.rate}: ${c.more ? 'at least ' : 'about '}${duration(left)} for those that wait`;
}

/** The part of a limit that is used, from 0 to 1. */
export const share = (used: number, limit: number): number => (limit > 0 ? Math.min(Math.max(used / limit, 0), 1) : 0);

export type Trouble = { queue: string; handlers: string[]; due: number; more: boolean };

/** Queues whose due runs wait for a worker that is not there. */
export function troubles(queues: Queue[]): Trouble[] {
  return queues.flatMap((q) =>
    q.counts && q.counts.handlers_without_worker.length > 0
      ? [{ queue: q.name, handlers: q.counts.handlers_without_worker, due: q.counts.due, more: q.counts.more }]
      : [],
  );
}

/** Names in a sentence: "a", "a and b", "a, b and 3 more". */
export function named(names: string[], most = 3): string {
  if (names.length > most) return `${names.slice(0, most - 1).join(', ')} and ${names.length - most + 1} more`;
  if (names.length < 2) return names[0] ?? '';
  return `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}`;
}
