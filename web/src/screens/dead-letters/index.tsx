import { SegmentedControl } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { api, snapshot, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { capped, count, plural } from '../../lib/number';
import { useUrl, type Search } from '../../lib/search';
import { useAction } from '../../ui/action';
import { Button, Chip, Tag, TextButton } from '../../ui/control';
import { Icon } from '../../ui/icon';
import { Mark, reasonText } from '../../ui/mark';
import { Page } from '../../ui/page';
import { Empty, Loaded } from '../../ui/state';
import { Table } from '../../ui/table';
import { Ago, When } from '../../ui/when';
import { Bars } from './bars';
import { GroupDialog } from './bulk';
import css from './dead-letters.module.css';

type DeadLetter = Schemas['DeadLetter'];
type DeadGroup = Schemas['DeadLetterGroup'];
type DeadSummary = Schemas['DeadLetterSummary'];
type By = 'cause' | 'job' | 'queue' | 'reason';

const filters = ['job', 'queue', 'reason', 'cause', 'failed_from', 'failed_to'] as const;

export const filterOf = (url: Search): Record<string, string> => {
  const out: Record<string, string> = {};
  for (const f of filters) if (url[f]) out[f] = url[f];
  return out;
};

const query = (filter: Record<string, string>) => new URLSearchParams(filter).toString();

/** What failed for good, is it one cause, and may it be redriven? */
export default function DeadLetters() {
  const [url, setUrl] = useUrl();
  const by = (url.by as By | undefined) ?? 'cause';
  const filter = filterOf(url);
  const summary = useData<DeadSummary>({
    key: ['dead-letters', 'summary', by, filter],
    get: (signal) => snapshot(`/api/v1/dead-letters:summary?${query({ by, ...filter })}`, signal),
    every: 5000,
    keep: true,
  });
  const s = summary.data;
  const sub = s && s.total > 0 && (
    <>
      {capped(s.total, s.more)} in {plural(s.groups.length, by === 'cause' ? 'cause' : by)}
      {s.partial && ', the largest ones'}
    </>
  );
  return (
    <Page title="Dead letters" sub={sub}>
      <div className={css.bar}>
        <span className="dim">Group by</span>
        <SegmentedControl
          aria-label="Group by"
          size="xs"
          value={by}
          onChange={(v) => setUrl({ by: v === 'cause' ? undefined : v, open: undefined })}
          data={[
            { value: 'cause', label: 'Cause' },
            { value: 'job', label: 'Job' },
            { value: 'queue', label: 'Queue' },
            { value: 'reason', label: 'Reason' },
          ]}
        />
        {filters
          .filter((f) => url[f])
          .map((f) => (
            <Chip key={f} name={f.replace('_', ' ')} value={url[f]!} onRemove={() => setUrl({ [f]: undefined })} />
          ))}
      </div>
      <Loaded query={summary}>
        {(data) =>
          data.groups.length === 0 ? (
            Object.keys(filter).length > 0 ? (
              <Empty
                title="No dead letter matches"
                action={
                  <TextButton onClick={() => setUrl(Object.fromEntries(filters.map((f) => [f, undefined])))}>Clear the filter</TextButton>
                }
              />
            ) : (
              <Empty title="Nothing waits for you" command={commands.deadLetters}>
                A run that fails permanently appears here until it is redriven or discarded.
              </Empty>
            )
          ) : (
            <ul className={css.groups}>
              {data.groups.map((g) => (
                <Group
                  key={g.key}
                  g={g}
                  by={by}
                  filter={filter}
                  open={url.open === g.key}
                  toggle={() => setUrl({ open: url.open === g.key ? undefined : g.key })}
                />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Page>
  );
}

/** The filter that selects exactly a group. */
const groupFilter = (g: DeadGroup, by: By, filter: Record<string, string>) => ({ ...filter, [by]: g.key });

function Group({
  g,
  by,
  filter,
  open,
  toggle,
}: {
  g: DeadGroup;
  by: By;
  filter: Record<string, string>;
  open: boolean;
  toggle: () => void;
}) {
  const session = useSession();
  const [dialog, setDialog] = useState<'redrive' | 'discard' | null>(null);
  const own = groupFilter(g, by, filter);
  const title = by === 'job' ? (g.job_name ?? g.job) : by === 'queue' || by === 'reason' ? g.key : (g.message ?? g.reason);
  return (
    <li className={css.group}>
      <div className={css.head}>
        <button type="button" className={css.toggle} aria-expanded={open} onClick={toggle}>
          <Icon name={open ? 'down' : 'right'} />
          <span className={css.count}>{capped(g.count, g.more)}</span>
          <span className={css.what}>
            <code className={css.message}>{title}</code>
            <span className={css.where}>
              {g.status && !title.startsWith(String(g.status)) ? (
                <>
                  <Tag tone="bad">{g.status}</Tag>{' '}
                </>
              ) : null}
              {reasonText(g.reason)} · queue {g.queue}
              {by !== 'job' && <> · last in {g.job_name ?? 'a deleted job'}</>}
            </span>
          </span>
        </button>
        <span className={css.when}>
          <Bars counts={g.sparkline} label={`${count(g.count)} failures between ${g.oldest_at} and ${g.newest_at}`} />
          <span className="dim">
            {g.count > 1 && (
              <>
                <Ago at={g.oldest_at} /> to{' '}
              </>
            )}
            <Ago at={g.newest_at} />
          </span>
        </span>
        {session.may('operator') && (
          <span className={css.actions}>
            <Button icon="redo" onClick={() => setDialog('redrive')}>
              Redrive…
            </Button>
            <Button onClick={() => setDialog('discard')}>Discard…</Button>
          </span>
        )}
      </div>
      {open && <Letters filter={own} group={g} />}
      {dialog && <GroupDialog kind={dialog} filter={own} group={g} close={() => setDialog(null)} />}
    </li>
  );
}

function Letters({ filter, group }: { filter: Record<string, string>; group: DeadGroup }) {
  const session = useSession();
  const list = useData<{ items: DeadLetter[]; next_page_token?: string }>({
    key: ['dead-letters', 'list', filter],
    get: (signal) => snapshot(`/api/v1/dead-letters?${query({ ...filter, page_size: '20' })}`, signal),
    every: 5000,
    keep: true,
  });
  const redrive = useAction((run: string) => unwrap(api.POST('/api/v1/dead-letters/{run}:redrive', { params: { path: { run } } })), {
    done: () => 'The run is redriven.',
  });
  const discard = useAction((run: string) => unwrap(api.POST('/api/v1/dead-letters/{run}:discard', { params: { path: { run } } })), {
    done: () => 'The dead letter is discarded.',
  });
  const s = group.since;
  return (
    <div className={css.letters}>
      {s && (
        <p className={css.since}>
          <Mark kind={s.failed > 0 ? 'failed' : s.succeeded > 0 ? 'succeeded' : 'planned'} label="" />
          Since the last failure, {plural(s.succeeded, 'run')}
          {s.more ? ' or more' : ''} of {s.jobs === 1 ? 'this job' : `the ${s.jobs} jobs that failed last`} succeeded and{' '}
          {count(s.failed)}{' '}
          failed.
        </p>
      )}
      <Loaded query={list} rows={3}>
        {(data) => (
          <>
            <Table
              label="Dead letters of the group"
              rows={data.items}
              id={(l) => l.run}
              columns={[
                {
                  head: 'Job',
                  cell: (l) =>
                    l.job_name ? (
                      <Link to="/jobs/$job" params={{ job: l.job }}>
                        {l.job_name}
                      </Link>
                    ) : (
                      <span className="dim">deleted job</span>
                    ),
                },
                { head: 'Failed', cell: (l) => <When at={l.failed_at} seconds utc={false} ago />, className: css.failedColumn },
                { head: 'Due', cell: (l) => <When at={l.due_at} utc={false} seconds />, width: '170px', from: 'desktop' },
                { head: 'Attempts', cell: (l) => l.attempt, width: '80px', right: true, from: 'tablet' },
                {
                  head: 'Run',
                  cell: (l) => (
                    <Link to="/runs/$run" params={{ run: l.run }} className={`mono ${css.run}`} title={l.run}>
                      …{l.run.slice(-14)}
                    </Link>
                  ),
                  from: 'tablet',
                },
                ...(session.may('operator')
                  ? [
                      {
                        head: <span className="sr">Actions</span>,
                        className: css.actionsColumn,
                        right: true,
                        cell: (l: DeadLetter) => (
                          <span className={css.rowActions}>
                            <Button
                              tone="quiet"
                              onClick={() => redrive.mutate(l.run)}
                              blocked={l.job_name ? undefined : 'Its job is deleted'}
                            >
                              Redrive
                            </Button>
                            <Button tone="quiet" className="bad" onClick={() => discard.mutate(l.run)}>
                              Discard
                            </Button>
                          </span>
                        ),
                      },
                    ]
                  : []),
              ]}
            />
            {data.next_page_token && (
              <p className="dim">
                The newest 20 are shown. Filter by job or time to see others, or list all: <code>{commands.deadLetters}</code>
              </p>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}
