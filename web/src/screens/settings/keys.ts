import type { Schemas } from '../../api/client';

export type Key = Schemas['Key'];
export type KeyRequest = Schemas['KeyRequest'];
export type Role = Schemas['Role'];

/** What each role may do, in the order of their rights. */
export const roles: [Role, string][] = [
  ['viewer', 'reads everything of the namespace but keys and the audit log'],
  ['operator', 'also pauses, resumes, triggers, cancels and redrives'],
  ['editor', 'also creates, changes and deletes jobs, limits and secrets'],
  ['admin', 'also creates keys and reads the audit log'],
  ['worker', 'claims runs of the named queues and reports on them, and nothing else'],
];

export type KeyState = 'active' | 'expired' | 'revoked';

export function stateOf(k: Key, now: number): KeyState {
  if (k.revoked_at) return 'revoked';
  return k.expires_at && Date.parse(k.expires_at) <= now ? 'expired' : 'active';
}

/** Whether a key that works now expires within a week. */
export const expiresSoon = (k: Key, now: number): boolean =>
  stateOf(k, now) === 'active' && !!k.expires_at && Date.parse(k.expires_at) - now < 7 * 24 * 3600_000;

export type KeyForm = { name: string; role: Role; queues: string; expires: string };

export const emptyForm: KeyForm = { name: '', role: 'viewer', queues: '', expires: '90d' };

export const queuesOf = (text: string): string[] => [...new Set(text.split(/[\s,]+/).filter(Boolean))];

/** Why the form cannot be sent yet. */
export function blockedBy(f: KeyForm): string | undefined {
  if (!f.name.trim()) return 'Enter what the key is for';
  if (f.role === 'worker' && queuesOf(f.queues).length === 0) return 'A worker needs a queue';
  return undefined;
}

export function requestOf(f: KeyForm): KeyRequest {
  const out: KeyRequest = { name: f.name.trim(), role: f.role };
  if (f.role === 'worker') out.queues = queuesOf(f.queues);
  if (f.expires) out.expires_in = f.expires;
  return out;
}
