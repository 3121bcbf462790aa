import { useState } from 'react';
import { api, idempotencyKey, ApiProblem, unwrap, type Schemas } from '../../api/client';
import { useSession } from '../../api/session';
import { useAction } from '../../ui/action';
import { Button } from '../../ui/control';
import { Dialog } from '../../ui/dialog';

type Run = Schemas['RunDetail'];
type Act = 'cancel' | 'retry' | 'redrive' | 'discard';

export const isLive = (state: Run['state']): boolean => ['pending', 'retrying', 'due', 'running', 'accepted'].includes(state);

const texts: Record<Act, { title: string; action: string; explain: string; danger?: boolean; done: string }> = {
  cancel: {
    title: 'Cancel this run', action: 'Cancel the run', danger: true, done: 'The run is cancelled.',
    explain: 'The run ends as cancelled, and reports of its attempt are ignored. Its target may have got the call and may finish it.',
  },
  retry: {
    title: 'Run again', action: 'Run again', done: 'The run is live again.',
    explain: 'The run is live again under its old id and idempotency key, with the current definition of the job and all its attempts.',
  },
  redrive: {
    title: 'Redrive this dead letter', action: 'Redrive', done: 'The run is live again.',
    explain: 'The run is live again under its old id and idempotency key, with all attempts. It is no longer a dead letter.',
  },
  discard: {
    title: 'Discard this dead letter', action: 'Discard', danger: true, done: 'The dead letter is discarded.',
    explain: 'The run stays failed in the history and is no longer a dead letter. It can still be run again.',
  },
};

const path = (run: Run) => ({ path: { run: run.id } });

function send(act: Act, run: Run, key: string): Promise<unknown> {
  const header = { 'Idempotency-Key': key };
  switch (act) {
    case 'cancel': return unwrap(api.POST('/api/v1/runs/{run}:cancel', { params: path(run) }));
    // With the attempt, the server rejects a retry of a run that another user has already run again.
    case 'retry': return unwrap(api.POST('/api/v1/runs/{run}:retry',
      { params: { ...path(run), header, query: { attempt: run.attempt } } }));
    case 'redrive': return unwrap(api.POST('/api/v1/dead-letters/{run}:redrive', { params: { ...path(run), header } }));
    case 'discard': return unwrap(api.POST('/api/v1/dead-letters/{run}:discard', { params: path(run) }));
  }
}

/** The problem as the server says it, except that a dead letter that is not found was redriven or discarded in the meantime. */
export function problemOf(act: Act, e: Error | null): Error | null {
  if (!(e instanceof ApiProblem) || e.status !== 404 || (act !== 'redrive' && act !== 'discard')) return e;
  const detail = 'The run is no longer a dead letter: it has been redriven or discarded in the meantime.';
  return new ApiProblem(e.status, { code: e.code, request_id: e.requestId, detail });
}

export function RunActions({ run }: { run: Run }) {
  const { may } = useSession();
  const [open, setOpen] = useState<Act | null>(null);
  if (!may('operator')) return null;
  const deleted = run.job_name ? undefined : 'The job is deleted';
  return (
    <>
      {isLive(run.state) && <Button tone="danger" icon="stop" onClick={() => setOpen('cancel')}>Cancel…</Button>}
      {run.dead_letter && <Button tone="primary" icon="redo" blocked={deleted} onClick={() => setOpen('redrive')}>Redrive…</Button>}
      {run.dead_letter && <Button onClick={() => setOpen('discard')}>Discard…</Button>}
      {!isLive(run.state) && !run.dead_letter && <Button icon="redo" blocked={deleted}
        onClick={() => setOpen('retry')}>Run again…</Button>}
      {open && <ActDialog act={open} run={run} close={() => setOpen(null)} />}
    </>
  );
}

function ActDialog({ act, run, close }: { act: Act; run: Run; close: () => void }) {
  const [key] = useState(idempotencyKey);
  const t = texts[act];
  const action = useAction(() => send(act, run, key), { quiet: true, done: () => { close(); return t.done; } });
  return (
    <Dialog open close={close} title={t.title} action={t.action} danger={t.danger ?? false}
      {...(act === 'cancel' ? { dismiss: 'Leave it running' } : {})} act={() => action.mutate()} busy={action.isPending}
      error={problemOf(act, action.error)}>
      <p>{t.explain}</p>
    </Dialog>
  );
}
