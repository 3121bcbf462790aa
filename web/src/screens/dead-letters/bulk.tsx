import { useNavigate } from '@tanstack/react-router';
import { NumberInput, TextInput } from '@mantine/core';
import { useState } from 'react';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { capped, count, plural } from '../../lib/number';
import { duration } from '../../lib/time';
import { useAction } from '../../ui/action';
import { Code } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { Mark } from '../../ui/mark';
import { ProblemView } from '../../ui/state';
import css from './dead-letters.module.css';

const typedAbove = 1000;
const defaultRate = 50;

type DeadGroup = Schemas['DeadLetterGroup'];
type Counted = { count: number; more: boolean };

/** Asks before many dead letters are redriven or discarded: the server counts them, and nothing begins before that. */
export function BulkDialog({ kind, filter, group, close }: {
  kind: 'redrive' | 'discard'; filter: Record<string, string>; group: DeadGroup; close: () => void;
}) {
  const navigate = useNavigate();
  const [rate, setRate] = useState<number>(defaultRate);
  const [typed, setTyped] = useState('');
  const path = kind === 'redrive' ? '/api/v1/dead-letters:redrive' as const : '/api/v1/dead-letters:discard' as const;
  const counted = useData<Counted>({
    key: ['dead-letters', 'count', kind, filter],
    get: (signal) => unwrap(api.POST(path, { body: { ...filter, dry_run: true } as never, signal })) as Promise<unknown> as Promise<Counted>,
  });
  const begin = useAction(() => unwrap(api.POST(path, { body: { ...filter, rate } as never })) as Promise<unknown> as Promise<{ id: string }>, {
    quiet: true,
    done: (operation) => {
      close();
      void navigate({ to: '/operations/$operation', params: { operation: operation.id } });
    },
  });
  const n = counted.data?.count ?? 0;
  const many = n > typedAbove;
  const verb = kind === 'redrive' ? 'Redrive' : 'Discard';
  const blocked = !counted.data ? 'Counting…' : n === 0 ? 'Nothing matches any more' : many && typed !== String(n) ? 'Type the count to confirm' : undefined;
  return (
    <Dialog title={`${verb} ${counted.data ? capped(n, counted.data.more) : ''} dead letters`} open close={close} danger={kind === 'discard'}
      action={`${verb} ${counted.data ? capped(n, counted.data.more) : ''} at ${rate}/s`} act={() => begin.mutate(undefined)} busy={begin.isPending} error={begin.error} blocked={blocked}>
      <p className="dim">
        {kind === 'redrive'
          ? 'Every run keeps its id and idempotency key and gets new attempts. Runs that succeed leave this list.'
          : 'The runs stay failed in the history and can no longer be redriven.'}
      </p>
      {counted.error && <ProblemView error={counted.error} retry={() => void counted.refetch()} quiet />}
      <dl className={css.facts}>
        <div><dt>Filter</dt><dd>{Object.entries(filter).map(([k, v]) => <span key={k}>{k.replace('_', ' ')} <Code>{k === 'cause' ? group.message ?? v : v}</Code> </span>)}</dd></div>
        <div><dt>Counted</dt><dd>{counted.data ? <>{capped(n, counted.data.more)}{counted.data.more ? ', at least' : ', exact'}</> : '…'}</dd></div>
        {group.since && (
          <div>
            <dt>Since then</dt>
            <dd className="row"><Mark kind={group.since.failed > 0 ? 'failed' : 'succeeded'} label="" />{plural(group.since.succeeded, 'run')} succeeded, {count(group.since.failed)} failed</dd>
          </div>
        )}
      </dl>
      <NumberInput label="Rate, per second" min={1} max={1000} value={rate} onChange={(v) => setRate(Number(v) || 1)} data-autofocus
        description={n > 0 ? `${duration(Math.ceil(n / rate) * 1000)} until the last one. You can stop it at any time.` : undefined} />
      {many && <TextInput label={`Type ${n} to confirm`} value={typed} onChange={(e) => setTyped(e.currentTarget.value)} inputMode="numeric" autoComplete="off" />}
    </Dialog>
  );
}
