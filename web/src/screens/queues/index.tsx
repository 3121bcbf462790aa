import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, unwrap } from '../../api/client';
import { usePages } from '../../api/pages';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { capped, plural } from '../../lib/number';
import { useUrl } from '../../lib/search';
import { Button, TextButton } from '../../ui/control';
import { FilterBar } from '../../ui/filter';
import { Icon } from '../../ui/icon';
import { Endless, NewerPill } from '../../ui/list';
import { Page } from '../../ui/page';
import { Empty, ProblemView, Skeleton } from '../../ui/state';
import { Table } from '../../ui/table';
import { columns } from './columns';
import { LimitsDialog, PauseDialog, useResumeQueue } from './dialogs';
import { named, troubles, type Queue, type Trouble } from './limits';
import css from './queues.module.css';

const noun: [string, string] = ['queue', 'queues'];
const size = 200;

/** Who works on what, and what waits for what? */
export default function Queues() {
  const [url, setUrl] = useUrl();
  const { may } = useSession();
  const navigate = useNavigate();
  const [pausing, setPausing] = useState<Queue | null>(null);
  const [creating, setCreating] = useState(false);
  const resume = useResumeQueue();
  const list = usePages<Queue>({
    key: ['queues'],
    id: (q) => q.name,
    every: 2000,
    hold: pausing !== null || creating,
    get: (token, signal) =>
      unwrap(
        api.GET('/api/v1/queues', {
          params: { query: { include: 'counts', page_size: size, ...(token ? { page_token: token } : {}) } },
          ...(signal ? { signal } : {}),
        }),
      ),
  });
  const wanted = (url.name ?? '').toLowerCase();
  const rows = list.rows.filter((q) => q.name.includes(wanted) && (!url.state || (url.state === 'paused') === q.paused));
  const open = (q: Queue) => void navigate({ to: '/queues/$queue', params: { queue: q.name } });
  const toggle = (q: Queue) => (q.paused ? resume.mutate(q.name) : setPausing(q));
  const filtered = !!wanted || !!url.state;
  const partial = list.rows.some((q) => q.counts?.more);
  return (
    <Page
      title="Queues"
      sub={list.first.data && <Summary queues={list.rows} more={list.more} />}
      actions={
        may('editor') && (
          <Button icon="plus" onClick={() => setCreating(true)}>
            New queue
          </Button>
        )
      }
    >
      <Troubles list={troubles(list.rows)} />
      <FilterBar
        search={{ key: 'name', placeholder: 'Part of a name' }}
        fields={[
          {
            key: 'state',
            label: 'State',
            options: [
              { value: 'active', label: 'active' },
              { value: 'paused', label: 'paused' },
            ],
          },
        ]}
      />
      <NewerPill newer={list.newer} refresh={list.refresh} noun={noun} />
      {list.first.error && <ProblemView error={list.first.error} retry={() => void list.first.refetch()} quiet={list.rows.length > 0} />}
      {!list.first.data && !list.first.error && <Skeleton />}
      {list.first.data &&
        (rows.length > 0 ? (
          <div className={list.first.error ? 'stale' : undefined}>
            <Table
              label="Queues"
              rows={rows}
              id={(q) => q.name}
              columns={columns}
              open={open}
              keys={may('operator') ? { p: toggle } : {}}
              {...(may('operator')
                ? {
                    actions: (q: Queue) => (
                      <Button tone="quiet" iconOnly icon={q.paused ? 'play' : 'pause'} onClick={() => toggle(q)}>
                        {q.paused ? `Resume ${q.name}` : `Pause ${q.name}`}
                      </Button>
                    ),
                  }
                : {})}
            />
            {partial && <p className="dim">A number with + is a lower bound: there are more live runs in the cluster than are counted.</p>}
            <Endless list={{ ...list, rows }} short={false} noun={noun} />
          </div>
        ) : filtered && list.rows.length > 0 ? (
          <Empty
            title="No queue matches"
            action={<TextButton onClick={() => setUrl({ name: undefined, state: undefined })}>Clear the filter</TextButton>}
          />
        ) : (
          <Empty title="There is no queue yet" command={commands.setQueue}>
            A queue is created with its first job. Create one yourself to set limits before that.
          </Empty>
        ))}
      {pausing && <PauseDialog queue={pausing} close={() => setPausing(null)} />}
      {creating && (
        <LimitsDialog
          queue={null}
          close={(name) => {
            setCreating(false);
            if (name) void navigate({ to: '/queues/$queue', params: { queue: name } });
          }}
        />
      )}
    </Page>
  );
}

function Summary({ queues, more }: { queues: Queue[]; more: boolean }) {
  const paused = queues.filter((q) => q.paused).length;
  const due = queues.reduce((n, q) => n + (q.counts?.due ?? 0), 0);
  const running = queues.reduce((n, q) => n + (q.counts?.running ?? 0), 0);
  const lower = more || queues.some((q) => q.counts?.more);
  return (
    <>
      {capped(queues.length, more)} queues · {capped(due, lower)} due · {capped(running, lower)} running
      {paused > 0 && (
        <>
          {' '}
          ·{' '}
          <Link to="/queues" search={{ state: 'paused' } as never} className={css.under}>
            {paused} paused
          </Link>
        </>
      )}
    </>
  );
}

/** Due runs for which no worker asks: they wait until one does. */
export function Troubles({ list }: { list: Trouble[] }) {
  if (list.length === 0) return null;
  return (
    <ul className={css.troubles}>
      {list.slice(0, 5).map((t) => (
        <li key={t.queue}>
          <Icon name="warning" />
          <span className="grow">
            <b>No worker asks for handler {named(t.handlers)}.</b>{' '}
            <Link to="/runs" search={{ state: 'due', queue: t.queue } as never}>
              {t.more ? `${capped(t.due, true)} due runs` : plural(t.due, 'due run')}
            </Link>{' '}
            of queue{' '}
            <Link to="/queues/$queue" params={{ queue: t.queue }}>
              {t.queue}
            </Link>{' '}
            {t.due === 1 ? 'waits' : 'wait, some or all of them for it'}.
          </span>
        </li>
      ))}
      {list.length > 5 && <li>{plural(list.length - 5, 'more queue')} without a worker.</li>}
    </ul>
  );
}
