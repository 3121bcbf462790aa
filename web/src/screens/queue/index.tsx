import { Link, useParams } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { capped, count, plural } from '../../lib/number';
import { Button, Tag } from '../../ui/control';
import { Mark, Outcome } from '../../ui/mark';
import { Facts, Page, Section } from '../../ui/page';
import { Empty, Loaded } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { Ago, When } from '../../ui/when';
import { now } from '../../lib/time';
import { LimitBar } from '../queues/bar';
import { Oldest, RunCount } from '../queues/columns';
import { LimitsDialog, PauseDialog, useResumeQueue } from '../queues/dialogs';
import { Troubles } from '../queues';
import { heldBy, share, troubles, type Queue } from '../queues/limits';
import css from '../queues/queues.module.css';

type Worker = Schemas['WorkerSession'];

const crumbs = [{ label: 'Queues', link: { to: '/queues' } as never }];

/** What does this queue do, and who works on it? */
export default function QueueScreen() {
  const { queue: name } = useParams({ strict: false }) as { queue: string };
  const query = useData<Queue>({
    key: ['queue', name],
    every: 2000,
    get: (signal) => unwrap(api.GET('/api/v1/queues/{queue}', { params: { path: { queue: name }, query: { include: 'counts' } }, signal })),
  });
  const q = query.data;
  return (
    <Page title={name} crumbs={crumbs} sub={q && <State queue={q} />} actions={q && <Actions queue={q} />}>
      <Loaded query={query} rows={4}>
        {(queue) => <Content queue={queue} />}
      </Loaded>
    </Page>
  );
}

function State({ queue }: { queue: Queue }) {
  if (!queue.paused) return <Tag>Active</Tag>;
  return (
    <span className="row wrap">
      <Outcome kind="paused">Paused</Outcome>
      {queue.paused_at && (
        <span>
          since <When at={queue.paused_at} ago />
        </span>
      )}
      {queue.note && <span>“{queue.note}”</span>}
    </span>
  );
}

function Actions({ queue }: { queue: Queue }) {
  const { may } = useSession();
  const [open, setOpen] = useState<'pause' | 'limits' | null>(null);
  const resume = useResumeQueue();
  return (
    <>
      {may('operator') &&
        (queue.paused ? (
          <Button tone="primary" icon="play" busy={resume.isPending} onClick={() => resume.mutate(queue.name)}>
            Resume
          </Button>
        ) : (
          <Button icon="pause" onClick={() => setOpen('pause')}>
            Pause…
          </Button>
        ))}
      {may('editor') && (
        <Button icon="edit" onClick={() => setOpen('limits')}>
          Limits…
        </Button>
      )}
      {open === 'pause' && <PauseDialog queue={queue} close={() => setOpen(null)} />}
      {open === 'limits' && <LimitsDialog queue={queue} close={() => setOpen(null)} />}
    </>
  );
}

function Number({ name, children, small }: { name: string; children: ReactNode; small?: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {children}
        {small && <small>{small}</small>}
      </dd>
    </div>
  );
}

function Content({ queue }: { queue: Queue }) {
  const c = queue.counts;
  const held = heldBy(queue);
  return (
    <>
      <Troubles list={troubles([queue])} />
      {held && troubles([queue]).length === 0 && (
        <p className="warn row">
          <Mark kind="late" label="" />
          {plural(Math.max(c!.due, c!.waiting), 'run')} due: {held}.
        </p>
      )}
      {c && (
        <dl className={css.numbers}>
          <Number
            name="Due"
            small={
              c.oldest_due_at ? (
                <>
                  oldest <Oldest queue={queue} />
                </>
              ) : (
                'none waits'
              )
            }
          >
            <RunCount n={c.due} more={c.more} queue={queue.name} state="due" />
          </Number>
          <Number
            name="Running"
            small={
              queue.max_running ? (
                <>
                  of at most {count(queue.max_running)}
                  <span
                    className={css.bar}
                    role="img"
                    aria-label={`${Math.round(share(c.running, queue.max_running) * 100)} % of the limit`}
                  >
                    <i style={{ width: `${share(c.running, queue.max_running) * 100}%` }} />
                  </span>
                </>
              ) : (
                'no limit'
              )
            }
          >
            <RunCount n={c.running} more={c.more} queue={queue.name} state="running" />
          </Number>
          <Number
            name="Waiting for a permit"
            small={queue.max_running || queue.rate ? 'by priority, then by time' : 'no limit to wait for'}
          >
            {capped(c.waiting, c.more)}
          </Number>
          <Number name="Start rate" small={queue.rate ? `burst ${queue.burst ? count(queue.burst) : 'default'}` : 'starts are not limited'}>
            {queue.rate ?? 'no limit'}
          </Number>
          <Number name="Next minute" small="planned">
            <RunCount n={c.planned_1m} more={c.planned_1m_more} queue={queue.name} state="pending" />
          </Number>
          <Number name="Workers" small={c.workers === 0 ? 'none is connected' : 'with a live session'}>
            {count(c.workers)}
          </Number>
        </dl>
      )}
      <Facts
        items={[
          [
            'Jobs',
            <Link key="j" to="/jobs" search={{ queue: queue.name } as never}>
              Jobs of this queue
            </Link>,
          ],
          [
            'Dead letters',
            <Link key="d" to="/dead-letters" search={{ queue: queue.name } as never}>
              Dead letters of this queue
            </Link>,
          ],
          [
            'Load',
            <Link key="l" to="/load" search={{ queue: queue.name } as never}>
              Next 24 hours
            </Link>,
          ],
          ['Created', <When key="c" at={queue.created_at} />],
        ]}
      />
      <Workers queue={queue} />
    </>
  );
}

function Workers({ queue }: { queue: Queue }) {
  const list = useData({
    key: ['workers', queue.name],
    every: 2000,
    get: (signal) =>
      unwrap(api.GET('/api/v1/queues/{queue}/sessions', { params: { path: { queue: queue.name }, query: { page_size: 200 } }, signal })),
  });
  return (
    <Section
      title="Workers"
      id="workers"
      aside={
        list.data && (
          <span className="dim">
            {list.data.next_page_token ? `${list.data.items.length}+ sessions` : plural(list.data.items.length, 'session')}
          </span>
        )
      }
    >
      <Loaded query={list} rows={3}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty title="No worker is connected" command={commands.workerKey(queue.name)}>
              Only jobs with a target of kind worker need one. A worker is a process of yours that claims runs with a key of the role
              worker.
            </Empty>
          ) : (
            <Table label="Workers" rows={page.items} id={(w) => w.id} columns={columns(queue.name)} />
          )
        }
      </Loaded>
    </Section>
  );
}

const columns = (queue: string): Column<Worker>[] => [
  { head: 'Worker', cell: (w) => <span title={w.id}>{w.worker}</span> },
  { head: 'State', width: '104px', cell: (w) => (w.silent ? <Outcome kind="late">Silent</Outcome> : <Tag>Active</Tag>) },
  {
    head: 'Runs in hand',
    width: '150px',
    cell: (w) => (
      <Link to="/runs" search={{ state: 'running', queue } as never} className={css.plain}>
        <LimitBar used={w.running} more={w.running_more} limit={w.slots} label="Runs in hand" />
      </Link>
    ),
  },
  {
    head: 'Handlers',
    from: 'tablet',
    cell: (w) =>
      w.handlers.length === 0 ? (
        <span className="dim">has not claimed yet</span>
      ) : (
        <span className={css.handlers} title={w.handlers.join(', ')}>
          {w.handlers.map((h) => (
            <code key={h}>{h}</code>
          ))}
        </span>
      ),
  },
  {
    head: 'Heartbeat',
    width: '100px',
    right: true,
    cell: (w) => (
      <span className={w.silent ? 'warn' : ''}>
        <Ago at={w.heartbeat_at} />
      </span>
    ),
  },
  { head: 'Session left', width: '110px', right: true, from: 'tablet', cell: (w) => <Left at={w.expires_at} /> },
  { head: 'Started', width: '110px', right: true, from: 'desktop', cell: (w) => <Ago at={w.started_at} /> },
];

function Left({ at }: { at: string }) {
  return Date.parse(at) < now() ? <span className="warn">expired</span> : <Ago at={at} />;
}
