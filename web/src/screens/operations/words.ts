import type { Schemas } from '../../api/client';
import { capped, plural } from '../../lib/number';

type Operation = Schemas['Operation'];

type Noun = [one: string, many: string];

/** What operations of a kind work on. */
export function nounOf(kind: string): Noun {
  if (kind === 'redrive' || kind === 'discard') return ['dead letter', 'dead letters'];
  if (kind === 'cancel' || kind === 'retry') return ['run', 'runs'];
  return ['job', 'jobs'];
}

/** An operation in a few words: "Redrive 4,213 dead letters". */
export function titleOf(o: Operation): string {
  const noun = nounOf(o.kind);
  if (o.kind === 'undo') return `Undo the change of ${plural(o.count, ...noun)}`;
  const n = o.more ? `${capped(o.count, true)} ${noun[1]}` : plural(o.count, noun[0], noun[1]);
  return `${o.kind.slice(0, 1).toUpperCase()}${o.kind.slice(1)} ${n}`;
}

const names: Record<string, string> = {
  failed_from: 'failed from',
  failed_to: 'failed before',
  due_from: 'due from',
  due_to: 'due before',
  all: 'all',
};

/** The filter of an operation, field by field. */
export function filterOf(filter: Record<string, string>): [string, string][] {
  return Object.entries(filter)
    .filter(([, v]) => v !== '')
    .map(([k, v]) => [names[k] ?? k.replaceAll('_', ' '), v]);
}

/** The list that shows what an operation of a kind works on. */
export function listOf(kind: string): '/dead-letters' | '/runs' | '/jobs' {
  const noun = nounOf(kind)[0];
  return noun === 'dead letter' ? '/dead-letters' : noun === 'run' ? '/runs' : '/jobs';
}

export type Sample = { at: number; done: number };

/** The samples of the last `span` milliseconds, at most one per poll. A count that falls begins anew. */
export function addSample(samples: Sample[], next: Sample, span = 30_000): Sample[] {
  const last = samples[samples.length - 1];
  if (last && next.done < last.done) return [next];
  if (last && next.at <= last.at) return samples;
  return [...samples.filter((s) => next.at - s.at <= span), next];
}

/** How many items a second were done, as far as the samples tell. */
export function speed(samples: Sample[]): number | null {
  const [first, last] = [samples[0], samples[samples.length - 1]];
  if (!first || !last || last.at - first.at < 2000) return null;
  return ((last.done - first.done) * 1000) / (last.at - first.at);
}

/** Milliseconds until the end at a speed; null if it is not known. */
export function left(o: Operation, perSecond: number | null): number | null {
  if (o.state !== 'running' || o.more || !perSecond || perSecond <= 0) return null;
  return (Math.max(0, o.count - o.done - o.failed) / perSecond) * 1000;
}
