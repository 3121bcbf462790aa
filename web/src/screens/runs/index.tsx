import { SegmentedControl } from '@mantine/core';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import { usePages } from '../../api/pages';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { useUrl } from '../../lib/search';
import { BulkBar, type Bulk, type BulkScope } from '../../ui/bulk';
import { filtered, FilterBar, type Field } from '../../ui/filter';
import { Endless, NewerPill } from '../../ui/list';
import { Page } from '../../ui/page';
import { useSelection } from '../../ui/selection';
import { Empty, ProblemView, Skeleton } from '../../ui/state';
import { Table } from '../../ui/table';
import { now } from '../../lib/time';
import { queueOptions } from '../jobs/fields';
import { HeldContext, columnsOf, type Run } from './columns';
import { bulkFilter, endedStates, filterKeys, liveStates, modeOf, runsQuery, seenAttempts, type Mode } from './filter';

const noun: [string, string] = ['run', 'runs'];
const size = 50;

const cancel: Bulk = {
  path: '/api/v1/runs:cancel', verb: 'Cancel', icon: 'stop', noun, danger: true, dismiss: 'Leave them running',
  explain: 'The runs end as cancelled, whether they have started or not. A target that has received its call may still finish the work.',
};
const retry: Bulk = {
  path: '/api/v1/runs:retry', verb: 'Run again', icon: 'redo', noun,
  explain: 'The runs are live again under their old ids and idempotency keys, with the current definition of their jobs and all attempts.',
};

/** What runs now, and what has ended? */
export default function Runs() {
  const [url, set] = useUrl();
  const navigate = useNavigate();
  const { may } = useSession();
  const [bulkOpen, setBulkOpen] = useState(false);
  const mode = modeOf(url);
  const key = ['runs', mode, ...filterKeys.map((k) => url[k] ?? '')];
  const selection = useSelection<Run>((r) => r.id, key.join('\n'));
  const list = usePages<Run>({
    key, id: (r) => r.id, size, hold: selection.size > 0 || bulkOpen,
    get: (token, signal) => {
      const query = { ...runsQuery(url, now()), page_size: size, ...(token ? { page_token: token } : {}) };
      return unwrap(api.GET('/api/v1/runs', { params: { query }, ...(signal ? { signal } : {}) }));
    },
  });
  const due = list.rows.some((r) => r.state === 'due');
  const queues = useData({
    key: ['queues', 'held'], enabled: due, every: 10_000,
    get: (signal) => unwrap(api.GET('/api/v1/queues', { params: { query: { include: 'counts', page_size: 200 } }, signal })),
  });
  const held = Object.fromEntries((due ? queues.data?.items ?? [] : []).map((q) => [q.name, q]));
  const short = !!list.last && list.last.items.length < size;
  const scope = (all: boolean, bulk: Bulk): BulkScope => {
    if (!all) {
      const ids = selection.ids();
      const body = { ids, ...(bulk === retry && seenAttempts(ids, list.rows)) };
      return { body, words: [['Runs', `${selection.size} selected`]] };
    }
    const { filter, words } = bulkFilter(url, now(), bulk === cancel ? 'cancel' : 'retry');
    return { body: { filter }, words };
  };
  const bulks = mode === 'live' ? [cancel] : mode === 'ended' ? [retry] : [retry, cancel];
  const modes: { value: Mode; label: string }[] = [
    ...(url.job ? [{ value: 'all' as const, label: 'All' }] : []), { value: 'live', label: 'Live' }, { value: 'ended', label: 'Ended' },
  ];
  return (
    <Page title="Runs" sub={mode === 'live' ? 'in progress or due' : mode === 'ended' ? 'newest end first'
      : 'newest due time first'}>
      <FilterBar fields={fields(mode)} aside={
        <SegmentedControl aria-label="Which runs" size="xs" value={mode} data={modes}
          onChange={(m) => set({ mode: m, state: undefined, reason: undefined }, true)} />
      } />
      {selection.size > 0 && may('operator') && (
        <BulkBar noun={noun} selected={selection.size} all={selection.all} setAll={selection.setAll} clear={selection.clear} scope={scope}
          onOpen={setBulkOpen}
          bulks={bulks} />
      )}
      <NewerPill newer={list.newer} refresh={list.refresh} noun={noun} />
      {list.first.error && <ProblemView error={list.first.error} retry={() => void list.first.refetch()} quiet={list.rows.length > 0} />}
      {list.first.data === undefined ? !list.first.error && <Skeleton rows={14} /> : list.rows.length === 0 && !list.more ? (
        <Nothing mode={mode} any={filtered(url, filterKeys)} />
      ) : (
        <HeldContext value={held}>
        <div className={list.stale || list.first.error ? 'stale' : undefined}>
          {list.rows.length > 0 && (
            <Table label="Runs" virtual phoneRow={55} rows={list.rows} id={(r) => r.id}
              name={(r) => `${r.job_name ?? r.job}, due ${r.due_at}`}
              columns={columnsOf(mode)}
              open={(r) => void navigate({ to: '/runs/$run', params: { run: r.id } })}
                {...(may('operator') ? { selection: selection.of(list.rows) } : {})}
              {...(short ? {} : { onEnd: list.loadMore })} />
          )}
          <Endless list={list} short={short} noun={noun} />
        </div>
        </HeldContext>
      )}
    </Page>
  );
}

function Nothing({ mode, any }: { mode: Mode; any: boolean }) {
  if (any) return <Empty title="No run matches these filters"
    action={<Link to="/runs" search={{ mode } as never}>Clear the filters</Link>} />;
  if (mode === 'live') return <Empty title="Nothing is running"
    action={<Link to="/runs" search={{ mode: 'ended' } as never}>See the runs that ended</Link>}>No run is due, running or waiting.</Empty>;
  return <Empty title="No run has ended yet" command={commands.runs} />;
}

const reasons = [
  'attempts', 'rejected', 'lost', 'unknown_outcome', 'gone', 'overlap', 'overlap_limit', 'missed', 'missed_window', 'missed_max', 'paused',
    'expired', 'replaced',
  'calendar', 'dst_gap', 'cancelled', 'deleted', 'restored',
];

const option = (value: string) => ({ value });

function fields(mode: Mode): Field[] {
  const states = mode === 'live' ? liveStates : mode === 'ended' ? endedStates : [...liveStates, ...endedStates];
  const ended: Field[] = [
    {
      key: 'reason', label: 'Reason', multi: true, free: 'Such as attempts, overlap, missed_window',
      options: reasons.map(option),
    },
    {
      key: 'within', label: 'Ended within', free: 'Duration such as 90m',
      options: [{ value: '15m', label: '15 minutes' }, { value: '1h', label: '1 hour' }, { value: '24h', label: '24 hours' },
        { value: '7d', label: '7 days' }],
    },
    { key: 'ended_from', label: 'Ended from', free: 'Such as 2026-05-01T00:00:00Z' },
    { key: 'ended_to', label: 'Ended before', free: 'Such as 2026-05-02T00:00:00Z' },
  ];
  return [
    { key: 'state', label: 'State', multi: true, options: states.map(option) },
    { key: 'job', label: 'Job', free: 'Name or id of a job', load: jobOptions },
    { key: 'queue', label: 'Queue', free: 'Name of a queue', load: queueOptions },
    ...(mode === 'live' ? [] : ended),
    { key: 'due_from', label: 'Due from', free: 'Such as 2026-05-01T00:00:00Z' },
    { key: 'due_to', label: 'Due before', free: 'Such as 2026-05-02T00:00:00Z' },
  ];
}

async function jobOptions(text: string) {
  const { items } = await unwrap(api.GET('/api/v1/jobs', { params: { query: { ...(text ? { name: text } : {}), page_size: 10 } } }));
  return items.map((j) => ({ value: j.name }));
}
