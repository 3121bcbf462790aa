import { SegmentedControl } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { unwrap, api } from '../../api/client';
import { useData } from '../../api/live';
import { count } from '../../lib/number';
import { clock } from '../../lib/time';
import { useAction } from '../../ui/action';
import { Code } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { ProblemView } from '../../ui/state';
import css from './load.module.css';

type Preview = { count: number; more: boolean; sample: { name: string }[]; load?: { from: string; before: number[]; after: number[] } };

/** Shows the curve before and after. Nothing changes until it is applied, and each job can be rolled back. */
export function SpreadDialog({ at, filter, close }: { at: number; filter: Record<string, string>; close: () => void }) {
  const navigate = useNavigate();
  const [within, setWithin] = useState('1h');
  const body = { filter: { ...filter, minute: new Date(at).getUTCMinutes() }, within };
  const preview = useData<Preview>({
    key: ['spread', body], keep: true,
    get: (signal) => unwrap(api.POST('/api/v1/jobs:spread' as never, { body: { ...body, dry_run: true }, signal } as never) as never),
  });
  const begin = useAction(() => unwrap<{ id: string }>(api.POST('/api/v1/jobs:spread' as never, { body } as never) as never), {
    quiet: true,
    done: (o) => { close(); void navigate({ to: '/operations/$operation', params: { operation: o.id } }); },
  });
  const p = preview.data;
  return (
    <Dialog wide title={`Spread ${clock(at)} UTC`} open close={close} act={() => begin.mutate(undefined)} busy={begin.isPending} error={begin.error}
      action={p ? `Spread ${count(p.count)} jobs` : 'Spread'} blocked={!p ? 'Counting …' : p.count === 0 ? 'No job here has a fixed minute 0' : undefined}>
      <p className="dim">Gives each job a fixed minute of its own (<Code>H</Code> instead of <Code>0</Code>), chosen by a hash. Each job gets a new version that can be rolled back.</p>
      <SegmentedControl aria-label="Within" size="xs" value={within} onChange={setWithin}
        data={[{ value: '5m', label: '5 min' }, { value: '15m', label: '15 min' }, { value: '30m', label: '30 min' }, { value: '1h', label: '1 hour' }]} />
      {preview.error && <ProblemView error={preview.error} retry={() => void preview.refetch()} quiet />}
      {p?.load && <Curve before={p.load.before} after={p.load.after} />}
      {p && (
        <dl className={css.facts}>
          <div><dt>Jobs changed</dt><dd>{count(p.count)}{p.more && '+'}</dd></div>
          {p.load && <div><dt>Busiest minute</dt><dd><s className="dim">{count(Math.max(...p.load.before))}</s> {count(Math.max(...p.load.after))}</dd></div>}
        </dl>
      )}
    </Dialog>
  );
}

function Curve({ before, after }: { before: number[]; after: number[] }) {
  const top = Math.max(...before, ...after, 1);
  const w = 600 / Math.max(before.length, 1);
  const bar = (n: number, i: number, name: string | undefined) => <rect key={`${name}${i}`} x={i * w} width={Math.max(w - 1, 1)} y={120 - (n / top) * 120} height={(n / top) * 120} className={name} />;
  return (
    <svg viewBox="0 0 600 120" className={css.curve} role="img" aria-label={`Busiest minute before ${count(Math.max(...before))}, after ${count(Math.max(...after))}`}>
      {before.map((n, i) => bar(n, i, css.before))}
      {after.map((n, i) => bar(n, i, css.after))}
    </svg>
  );
}
