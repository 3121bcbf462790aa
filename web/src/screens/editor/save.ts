import { notifications } from '@mantine/notifications';
import { useQueryClient } from '@tanstack/react-query';
import { useBlocker, useNavigate } from '@tanstack/react-router';
import { useCallback, useEffect, useRef, useState } from 'react';
import { ApiProblem, idempotencyKey, send, text, type Schemas } from '../../api/client';
import { inputForm, normalForm, type Definition } from '../../lib/definition';
import { compactExact, isObject, parseExact, Raw, type Exact } from '../../lib/json';
import type { Issue } from '../../ui/input';

type Job = Schemas['Job'];

export type Loadable = { def: Definition; name: string; id?: string; version?: number };

/** The version that another user saved in the meantime. */
export type Conflict = { theirs: Definition; version: number; by: string };

/** A job with exact numbers. */
export async function load(job: string, signal?: AbortSignal): Promise<Loadable & { id: string; version: number; by: string }> {
  const tree = parseExact(await text(`/api/v1/jobs/${encodeURIComponent(job)}`, signal));
  const get = (k: string): Exact | undefined => (isObject(tree) ? tree[k] : undefined);
  const version = get('version');
  return {
    // The server writes out every default. The form shows them grey, and a file does not need them.
    def: inputForm(normalForm(inputForm(tree))),
    name: String(get('name')),
    id: String(get('id')),
    by: String(get('updated_by')),
    version: version instanceof Raw ? Number(version.source) : 0,
  };
}

/** Ctrl S saves. */
export function useSaveKey(submit: () => void): void {
  const latest = useRef(submit);
  useEffect(() => {
    latest.current = submit;
  });
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      if (e.key === 's' && (e.ctrlKey || e.metaKey)) {
        e.preventDefault();
        latest.current();
      }
    };
    window.addEventListener('keydown', press);
    return () => window.removeEventListener('keydown', press);
  }, []);
}

/** Asks before the user leaves with changes. The view is part of the screen, so it does not ask for that. */
export function useLeaving(dirty: boolean, free: { current: boolean }) {
  const b = useBlocker({
    shouldBlockFn: ({ current, next }) => dirty && !free.current && current.pathname !== next.pathname,
    enableBeforeUnload: () => dirty && !free.current,
    withResolver: true,
  });
  return { asks: b.status === 'blocked', stay: () => b.reset?.(), go: () => b.proceed?.() };
}

/** Saves with If-Match of the version that was edited. */
export function useSave(id: string | undefined) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [issues, setIssues] = useState<Issue[]>([]);
  const [conflict, setConflict] = useState<Conflict | null>(null);
  const leaving = useRef(false);
  const key = useRef({ body: '', key: '' });
  const clear = useCallback(() => {
    setIssues((old) => (old.length > 0 ? [] : old));
    setError(null);
  }, []);

  const done = (job: Job, before: number) => {
    leaving.current = true;
    void client.invalidateQueries();
    notifications.show({ message: outcome(job, id ? before : undefined) });
    for (const w of job.warnings ?? []) {
      notifications.show({ title: `Check ${w.field}`, message: `${w.message}; ${w.fix}`, color: 'yellow', autoClose: false });
    }
    void navigate({ to: '/jobs/$job', params: { job: job.id } as never });
  };
  const run = async (def: Definition, version: number) => {
    setBusy(true);
    setError(null);
    const body = compactExact(def);
    if (key.current.body !== body) key.current = { body, key: idempotencyKey() };
    try {
      const answer = id
        ? await send('PUT', `/api/v1/jobs/${id}`, body, { 'If-Match': `"${version}"` })
        : await send('POST', '/api/v1/jobs', body, { 'Idempotency-Key': key.current.key });
      done(JSON.parse(answer) as Job, version);
    } catch (e) {
      if (e instanceof ApiProblem && e.status === 412 && id) {
        const now = await load(id).catch((x: unknown) => (x instanceof Error ? x : new Error(String(x))));
        if (now instanceof Error) setError(now);
        else setConflict({ theirs: now.def, version: now.version, by: now.by });
      } else if (e instanceof ApiProblem && e.status === 422 && e.problems.length > 0) {
        setIssues(e.problems);
      } else setError(e instanceof Error ? e : new Error(String(e)));
    } finally {
      setBusy(false);
    }
  };
  return { run, busy, error, issues, conflict, clear, leaving, settled: () => setConflict(null) };
}

/** What a save did. A definition with the same meaning makes no new version. */
function outcome(job: Job, before: number | undefined): string {
  if (before === undefined) return `Created ${job.name}.`;
  if (job.version === before) return `Nothing has changed: ${job.name} stays at version ${job.version}.`;
  return `Saved version ${job.version} of ${job.name}.`;
}
