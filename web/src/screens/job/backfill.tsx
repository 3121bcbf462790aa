import { useMutation } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { api, idempotencyKey, unwrap, type Schemas } from '../../api/client';
import { plural } from '../../lib/number';
import { day, myZone, now } from '../../lib/time';
import { useAction } from '../../ui/action';
import { Button } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { Field } from '../../ui/field';
import { When } from '../../ui/when';

type Props = {
  job: { id: string; name: string; zone?: string | undefined };
  close: () => void;
  done?: (() => void) | undefined;
  /** One occurrence: its due time. */
  at?: string | undefined;
};

const input = (ms: number): string => {
  const d = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return d.toISOString().slice(0, 16);
};

/** Runs a job for times that have passed. The server counts the runs first. */
export function BackfillDialog({ job, close, done, at }: Props) {
  const [from, setFrom] = useState(() => input(Math.floor((now() - day) / 60_000) * 60_000));
  const [to, setTo] = useState(() => input(Math.floor(now() / 60_000) * 60_000));
  const [pace, setPace] = useState('1s');
  const [again, setAgain] = useState(false);
  const [key] = useState(idempotencyKey);
  const range = at ? { from: at, to: new Date(Date.parse(at) + 1).toISOString() } : { from: iso(from), to: iso(to) };
  const body = (dry: boolean): Schemas['BackfillRequest'] => ({ from: range.from ?? '', to: range.to ?? '', pace, again, dry_run: dry });
  const shape = JSON.stringify(body(true));
  const dry = useMutation<{ shape: string; result: Schemas['Backfill'] }, Error, void>({
    mutationFn: async () => ({
      shape, result: await unwrap(api.POST('/api/v1/jobs/{job}:backfill', { params: { path: { job: job.id } }, body: body(true) })),
    }),
  });
  useEffect(() => {
    if (at) dry.mutate();
    // Of one occurrence there is nothing to choose: it is counted at once, and again if `again` changes.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [again]);
  const counted = dry.data?.shape === shape ? dry.data.result : undefined;
  const act = useAction(
    () => unwrap(api.POST('/api/v1/jobs/{job}:backfill', {
      params: { path: { job: job.id }, header: { 'Idempotency-Key': key } }, body: body(false),
    })),
    { quiet: true, done: (r) => { close(); done?.(); return `${plural(r.runs, 'run')} of ${job.name} created.`; } },
  );
  const blocked = !range.from || !range.to ? 'Choose a time' : !counted ? 'Count the runs first' : counted.runs === 0
    ? 'There is nothing to run' : undefined;
  return (
    <Dialog open close={close} wide title={at ? `Backfill one occurrence of ${job.name}` : `Backfill ${job.name}`} act={() => act.mutate()}
      busy={act.isPending}
      error={act.error ?? dry.error} blocked={blocked} action={counted ? `Create ${plural(counted.runs, 'run')}` : 'Create the runs'}>
      {at ? <p>Creates the run that is due at <When at={at}
        zone={job.zone} seconds />. It starts now, with the current definition of the job.</p> : (
        <>
          <p>Creates a run for each occurrence of the current schedule within this time. They start now, one after the other.</p>
          <Field label="From" aside={`in your time zone, ${myZone()}`} hint={range.from && <When at={range.from} />}>
            <input type="datetime-local" value={from} onChange={(e) => setFrom(e.currentTarget.value)} data-autofocus />
          </Field>
          <Field label="To" aside="exclusive, in the past" hint={range.to && <When at={range.to} />}>
            <input type="datetime-local" value={to} onChange={(e) => setTo(e.currentTarget.value)} />
          </Field>
          <Field label="Time between two starts"><input value={pace} onChange={(e) => setPace(e.currentTarget.value)}
            placeholder="1s" /></Field>
        </>
      )}
      <label className="row">
        <input type="checkbox" checked={again}
          onChange={(e) => setAgain(e.currentTarget.checked)} /> Also occurrences that already have a run
      </label>
      {counted ? (
        <p role="status">
          <b>{plural(counted.runs, 'run')}</b> would be created{counted.existing > 0
            && `, ${plural(counted.existing, 'occurrence')} already have one`}.
          {counted.continue_from && ' One call creates at most 10,000: repeat it for the rest.'}
        </p>
      ) : <span><Button icon="search" busy={dry.isPending} onClick={() => dry.mutate()}>Count the runs</Button></span>}
    </Dialog>
  );
}

const iso = (text: string): string | undefined => {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
};
