import { useNavigate } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import { api, idempotencyKey, unwrap, type Schemas } from '../../api/client';
import { actorName } from '../../lib/actor';
import { plural } from '../../lib/number';
import { day, hour, myZone, now } from '../../lib/time';
import { useAction } from '../../ui/action';
import { Dialog } from '../../ui/dialog';
import { Choices, Field } from '../../ui/field';
import { When } from '../../ui/when';
import { BackfillDialog } from './backfill';

export type JobRef = Pick<Schemas['Job'], 'id' | 'name' | 'state'> & Partial<Schemas['Job']>;
export type JobAct = 'trigger' | 'pause' | 'resume' | 'delete' | 'backfill';

type DialogProps = { job: JobRef; close: () => void; done?: (() => void) | undefined };

type Dialogs = { show: (act: JobAct, job: JobRef) => void; dialog: ReactNode; open: boolean };

/** The dialogs of a job. `show` opens one, and `dialog` is to be rendered. */
export function useJobDialogs(done?: (act: JobAct) => void): Dialogs {
  const [state, setState] = useState<{ act: JobAct; job: JobRef } | null>(null);
  const close = () => setState(null);
  const props = state && { job: state.job, close, done: () => done?.(state.act) };
  const dialog = props && {
    trigger: <TriggerDialog {...props} />, pause: <PauseDialog {...props} />, resume: <ResumeDialog {...props} />,
    delete: <DeleteDialog {...props} />, backfill: <BackfillDialog {...props} />,
  }[state.act];
  return { show: (act, job) => setState({ act, job }), dialog, open: state !== null };
}

const path = (job: JobRef) => ({ path: { job: job.id } });

/** A JSON text is sent as it was typed: parsing it would round large numbers. */
const isJSON = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** The instant of an <input type=datetime-local>, which is in the zone of the browser; undefined: it is empty. */
export const instant = (text: string): string | undefined => {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
};

function TriggerDialog({ job, close, done }: DialogProps) {
  const navigate = useNavigate();
  const [payload, setPayload] = useState('');
  const [at, setAt] = useState('');
  const [key] = useState(idempotencyKey);
  const bad = payload.trim() !== '' && !isJSON(payload);
  const due = instant(at);
  const act = useAction(
    () => unwrap(api.POST('/api/v1/jobs/{job}:trigger', {
      params: { ...path(job), header: { 'Idempotency-Key': key } },
      body: {},
      bodySerializer: () => {
        const fields = [due && `"at":${JSON.stringify(due)}`, payload.trim() && `"payload":${payload.trim()}`].filter(Boolean);
        return `{${fields.join(',')}}`;
      },
    })),
    {
      quiet: true,
      done: (run) => {
        close();
        done?.();
        if (!due) void navigate({ to: '/runs/$run', params: { run: run.id } });
        return due ? `${job.name} runs at ${due}.` : undefined;
      },
    },
  );
  return (
    <Dialog open close={close} title={`Trigger ${job.name}`} action={due ? 'Trigger then' : 'Trigger now'} act={() => act.mutate()}
      busy={act.isPending}
      error={act.error} blocked={bad ? 'The payload is not valid JSON' : undefined}>
      <p>Creates one run besides the schedule. The overlap policy applies: while another run of the job is live, the run may be skipped.</p>
      <Field label="Payload" aside="JSON; empty: the payload of the job" error={bad && 'This is not valid JSON.'}>
        <textarea rows={5} value={payload} onChange={(e) => setPayload(e.currentTarget.value)} spellCheck={false}
          placeholder={'{"report": "sales"}'} data-autofocus />
      </Field>
      <Field label="When" aside={`in your time zone, ${myZone()}; empty: now`} hint={due && <When at={due} utc />}>
        <input type="datetime-local" step={1} value={at} onChange={(e) => setAt(e.currentTarget.value)} />
      </Field>
    </Dialog>
  );
}

type Until = 'resumed' | '1h' | '8h' | '24h' | 'other';

function PauseDialog({ job, close, done }: DialogProps) {
  const [note, setNote] = useState('');
  const [until, setUntil] = useState<Until>('resumed');
  const [other, setOther] = useState('');
  const length = { resumed: 0, '1h': hour, '8h': 8 * hour, '24h': day, other: 0 }[until];
  const act = useAction(
    () => {
      const end = until === 'other' ? instant(other) : length ? new Date(now() + length).toISOString() : undefined;
      return unwrap(api.POST('/api/v1/jobs/{job}:pause',
        { params: path(job), body: { ...(note ? { note } : {}), ...(end ? { until: end } : {}) } }));
    },
    { quiet: true, done: () => { close(); done?.(); return `${job.name} is paused.`; } },
  );
  const blocked = until === 'other' && !instant(other) ? 'Choose when it resumes' : undefined;
  return (
    <Dialog open close={close} title={`Pause ${job.name}`} action="Pause" act={() => act.mutate()} busy={act.isPending} error={act.error}
      blocked={blocked}>
      <p>No occurrence starts while the job is paused. Runs that have started continue, and it can still be triggered by hand.</p>
      <Field label="Note" aside="why, for others">
        <input value={note} maxLength={500} onChange={(e) => setNote(e.currentTarget.value)}
          placeholder="its target is being repaired" data-autofocus />
      </Field>
      <Choices label="Until" value={until} set={setUntil}
        options={[['resumed', 'A user resumes it'], ['1h', '1 h'], ['8h', '8 h'], ['24h', '24 h'], ['other', 'Other…']]} />
      {until === 'other' && (
        <Field label="Resume at" aside={`in your time zone, ${myZone()}`} hint={instant(other) && <When at={instant(other)!} />}>
          <input type="datetime-local" value={other} onChange={(e) => setOther(e.currentTarget.value)} />
        </Field>
      )}
    </Dialog>
  );
}

const missedText = { skip: 'are skipped', once: 'run once, the newest of them', all: 'all run, one after the other' };

function ResumeDialog({ job, close, done }: DialogProps) {
  const act = useAction(() => unwrap(api.POST('/api/v1/jobs/{job}:resume', { params: path(job) })), {
    quiet: true,
    done: (r) => {
      close();
      done?.();
      const missed = r.missed_occurrences ? ` ${plural(r.missed_occurrences, 'occurrence')} passed while it was paused.` : '';
      return `${job.name} is active.${missed}`;
    },
  });
  return (
    <Dialog open close={close} title={`Resume ${job.name}`} action="Resume" act={() => act.mutate()} busy={act.isPending} error={act.error}>
      {job.paused_at && <p>Paused by {actorName(job.paused_by)} at <When at={job.paused_at}
        zone={job.zone} />{job.note && <>: “{job.note}”</>}.</p>}
      <p>Occurrences that passed meanwhile {missedText[job.missed?.paused ?? 'skip']} (<code>missed.paused</code>).</p>
    </Dialog>
  );
}

function DeleteDialog({ job, close, done }: DialogProps) {
  const [typed, setTyped] = useState('');
  const act = useAction(() => unwrap(api.DELETE('/api/v1/jobs/{job}', { params: path(job) })), {
    quiet: true, done: () => { close(); done?.(); return `${job.name} is deleted.`; },
  });
  return (
    <Dialog open close={close} danger title={`Delete ${job.name}`} action="Delete the job" act={() => act.mutate()} busy={act.isPending}
      error={act.error}
      blocked={typed === job.name ? undefined : 'Type the name to confirm'}>
      <p>
        Runs that have not started are withdrawn, and those that have started finish. The history stays under the id of the job until it
        expires.
      </p>
      <Field label={<>Type <b>{job.name}</b> to confirm</>}>
        <input className="mono" value={typed} onChange={(e) => setTyped(e.currentTarget.value)} autoComplete="off"
          spellCheck={false} data-autofocus />
      </Field>
    </Dialog>
  );
}
