import { useState } from 'react';
import { api, unwrap } from '../../api/client';
import { useAction } from '../../ui/action';
import { Dialog } from '../../ui/dialog';
import { TextField } from '../../ui/input';
import { capped } from '../../lib/number';
import { changesOf, formOf, limitsOf, problemsOf, type LimitForm, type Queue } from './limits';
import css from './queues.module.css';

export const usePauseQueue = () =>
  useAction(
    ({ name, note }: { name: string; note: string }) =>
      unwrap(api.POST('/api/v1/queues/{queue}:pause', { params: { path: { queue: name } }, body: { note } })),
    { done: (q) => `Queue ${q.name} is paused.`, quiet: true },
  );

export const useResumeQueue = () =>
  useAction((name: string) => unwrap(api.POST('/api/v1/queues/{queue}:resume', { params: { path: { queue: name } } })), {
    done: (q) => `Queue ${q.name} starts runs again.`,
  });

export function PauseDialog({ queue, close }: { queue: Queue; close: () => void }) {
  const [note, setNote] = useState('');
  const pause = usePauseQueue();
  const c = queue.counts;
  return (
    <Dialog
      open
      close={close}
      title={`Pause queue ${queue.name}`}
      action="Pause"
      busy={pause.isPending}
      error={pause.error}
      act={() => pause.mutate({ name: queue.name, note: note.trim() }, { onSuccess: close })}
    >
      <p>
        Within about a second no run of this queue starts any more, whether by schedule, trigger or retry. Runs wait and are not lost, but
        may expire if their job has a deadline.
      </p>
      {c && (
        <p className="dim">
          {capped(c.running, c.more)} running now continue. {capped(c.planned_1m, c.planned_1m_more)} would start within a minute.
        </p>
      )}
      <TextField
        label="Note"
        hint="Why, for those who wonder later. It is in the audit log."
        value={note}
        onValue={setNote}
        maxLength={500}
        data-autofocus
      />
    </Dialog>
  );
}

/** Sets the limits of a queue, or creates a queue with limits. */
export function LimitsDialog({ queue, close }: { queue: Queue | null; close: (created?: string) => void }) {
  const [name, setName] = useState('');
  const [form, setForm] = useState<LimitForm>(() => formOf(queue ?? {}));
  const save = useAction(
    () => {
      const body = limitsOf(form);
      return queue
        ? unwrap(api.PUT('/api/v1/queues/{queue}', { params: { path: { queue: queue.name } }, body }))
        : unwrap(api.POST('/api/v1/queues', { body: { name: name.trim(), ...body } }));
    },
    { done: (q) => (queue ? `The limits of ${q.name} are set.` : `Queue ${q.name} is created.`), quiet: true },
  );
  const wrong = problemsOf(form);
  const changes = changesOf(queue ?? {}, limitsOf(form));
  const field = (key: keyof LimitForm) => ({
    value: form[key],
    onValue: (v: string) => setForm({ ...form, [key]: v }),
    issues: wrong[key] ? [{ field: key, problem: wrong[key] }] : [],
  });
  const blocked =
    Object.keys(wrong).length > 0
      ? 'Correct the fields above'
      : queue && changes.length === 0
        ? 'Nothing is changed'
        : !queue && !name.trim()
          ? 'Enter a name'
          : undefined;
  return (
    <Dialog
      open
      close={() => close()}
      title={queue ? `Limits of queue ${queue.name}` : 'New queue'}
      action={queue ? 'Replace the limits' : 'Create'}
      busy={save.isPending}
      error={save.error}
      blocked={blocked}
      act={() => save.mutate(undefined, { onSuccess: (q) => close(q.name) })}
    >
      <p>
        {queue
          ? 'The limits hold for all nodes and workers together, within about a second. A lower limit never ends a run.'
          : 'Jobs create their queues themselves. Create one to set limits before its first run.'}
      </p>
      {!queue && (
        <TextField
          label="Name"
          value={name}
          onValue={setName}
          maxLength={63}
          data-autofocus
          hint="a-z, 0-9, . _ and -, starting with a letter or digit"
        />
      )}
      <div className={css.form}>
        <TextField
          label="Maximum running"
          placeholder="no limit"
          inputMode="numeric"
          {...field('max_running')}
          {...(queue ? { 'data-autofocus': true } : {})}
          hint="Runs that are live at the same time."
        />
        <TextField label="Rate" placeholder="no limit" {...field('rate')} hint="Starts, such as 100/s, 30/m or 1000/h." />
        <TextField
          label="Burst"
          placeholder="default"
          inputMode="numeric"
          {...field('burst')}
          hint="Starts at once after a quiet period."
        />
      </div>
      {queue && changes.length > 0 && (
        <table className={css.changes}>
          <caption>What is replaced</caption>
          <thead>
            <tr>
              <th scope="col">Limit</th>
              <th scope="col">Now</th>
              <th scope="col">Then</th>
            </tr>
          </thead>
          <tbody>
            {changes.map((c) => (
              <tr key={c.name}>
                <th scope="row">{c.name}</th>
                <td>
                  <del>{c.before}</del>
                </td>
                <td>
                  <ins>{c.after}</ins>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Dialog>
  );
}
