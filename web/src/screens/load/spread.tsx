import { SegmentedControl } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { capped, count, plural } from '../../lib/number';
import { clock, minute } from '../../lib/time';
import { useAction } from '../../ui/action';
import { Code } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { ProblemView } from '../../ui/state';
import css from './load.module.css';

/** Shows the curve before and after, of the jobs of a minute. Nothing changes until it is applied, and the operation can be undone. */
export function SpreadDialog({ at, filter, close }: { at: number; filter: Record<string, string>; close: () => void }) {
  const navigate = useNavigate();
  const [how, setHow] = useState('hash');
  const body: Schemas['SpreadJobsRequest'] = {
    ...(Object.keys(filter).length > 0 ? { filter: bulkFilter(filter) } : { all: true }),
    ...(how === 'hash' ? {} : { jitter: how }),
    due_from: new Date(at).toISOString(),
    due_to: new Date(at + minute).toISOString(),
  };
  const preview = useData<Schemas['BulkPreview']>({
    key: ['spread', body],
    keep: true,
    get: (signal) =>
      unwrap(api.POST('/api/v1/jobs:spread', { body: { ...body, dry_run: true }, signal })) as Promise<Schemas['BulkPreview']>,
  });
  const begin = useAction(() => unwrap(api.POST('/api/v1/jobs:spread', { body })) as Promise<Schemas['Operation']>, {
    quiet: true,
    done: (o) => {
      close();
      void navigate({ to: '/operations/$operation', params: { operation: o.id } });
    },
  });
  const p = preview.data;
  const s = preview.isPlaceholderData ? undefined : p?.spread;
  const [before, after] = [Math.max(...(s?.before ?? [0])), Math.max(...(s?.after ?? [0]))];
  let blocked: string | undefined;
  // Of very many jobs the server reads a part, from which nothing follows for the others.
  if (!s) blocked = 'Counting…';
  else if (s.exact && s.changed === 0) blocked = 'No job would change';
  else if (s.exact && after >= before) blocked = 'Their busiest minute would not get better';
  return (
    <Dialog
      wide
      title={`Spread the jobs of ${clock(at)} UTC`}
      open
      close={close}
      act={() => begin.mutate(undefined)}
      busy={begin.isPending}
      error={begin.error}
      action={s?.exact ? `Spread ${plural(s.changed, 'job')}` : 'Spread'}
      blocked={blocked}
    >
      <p className="dim">
        With <Code>H</Code>, a job that runs at minute 0 gets a minute of its own within the hour, by a hash. With jitter, each run starts
        up to that much later; jobs that run as often as that stay as they are. Only jobs that are due in this minute
        {Object.keys(filter).length > 0 && ' and match the filter'} change. Each gets a new version, and the operation can be undone.
      </p>
      <SegmentedControl
        aria-label="How"
        size="xs"
        value={how}
        onChange={setHow}
        data={[
          { value: 'hash', label: 'H for minute 0' },
          { value: '1m', label: 'jitter 1 min' },
          { value: '5m', label: '5 min' },
          { value: '15m', label: '15 min' },
        ]}
      />
      {preview.error && <ProblemView error={preview.error} retry={() => void preview.refetch()} quiet />}
      {p?.spread?.exact && <Curve before={around(p.spread.before, p.spread.from, at)} after={around(p.spread.after, p.spread.from, at)} />}
      {p && (
        <dl className={css.facts}>
          {p.spread && (
            <div>
              <dt>Jobs of this minute that change</dt>
              <dd>
                {p.spread.exact ? count(p.spread.changed) : `not counted, because there are ${capped(p.count, p.more)} jobs`}
              </dd>
            </div>
          )}
          {p.spread?.exact && (
            <div>
              <dt>Their busiest minute</dt>
              <dd className={after > before ? 'bad' : undefined}>
                <s className="dim">{count(before)}</s> {count(after)}
              </dd>
            </div>
          )}
        </dl>
      )}
    </Dialog>
  );
}

/** The hour that begins shortly before the chosen minute. */
export function around(counts: number[], from: string, at: number): number[] {
  const i = Math.max(Math.round((at - Date.parse(from)) / 60_000) - 5, 0);
  return counts.slice(i, i + 65);
}

/** The filter of the screen in the words of bulk requests. */
const bulkFilter = (filter: Record<string, string>): Schemas['JobsFilter'] => ({
  ...(filter.queue ? { queue: filter.queue } : {}),
  ...(filter.label ? { label: [filter.label] } : {}),
});

function Curve({ before, after }: { before: number[]; after: number[] }) {
  const top = Math.max(...before, ...after, 1);
  const w = 600 / Math.max(before.length, 1);
  const bar = (n: number, i: number, name: string | undefined) => (
    <rect key={`${name}${i}`} x={i * w} width={Math.max(w - 1, 1)} y={120 - (n / top) * 120} height={(n / top) * 120} className={name} />
  );
  return (
    <svg
      viewBox="0 0 600 120"
      className={css.curve}
      role="img"
      aria-label={`Busiest minute before ${count(Math.max(...before))}, after ${count(Math.max(...after))}`}
    >
      {before.map((n, i) => bar(n, i, css.before))}
      {after.map((n, i) => bar(n, i, css.after))}
    </svg>
  );
}
