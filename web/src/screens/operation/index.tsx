import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { useSession } from '../../api/session';
import { actorName } from '../../lib/actor';
import { capped, count, plural } from '../../lib/number';
import { duration } from '../../lib/time';
import { useAction } from '../../ui/action';
import { BulkDialog, type Bulk } from '../../ui/bulk';
import { Button, Chip, Copy } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { Facts, Page, Section } from '../../ui/page';
import { Loaded } from '../../ui/state';
import { Table } from '../../ui/table';
import { When } from '../../ui/when';
import { Progress, State } from '../operations/progress';
import { addSample, filterOf, left, listOf, nounOf, speed, titleOf, type Sample } from '../operations/words';
import css from '../operations/operations.module.css';

type Operation = Schemas['Operation'];

const crumbs = [{ label: 'Operations', link: { to: '/operations' } as never }];

/** How far is it, what failed, and may I stop it? */
export default function OperationScreen() {
  const { operation: id } = useParams({ strict: false }) as { operation: string };
  const [ended, setEnded] = useState(false);
  const query = useData<Operation>({
    key: ['operation', id],
    ...(ended ? {} : { every: 1000 }),
    get: (signal) => unwrap(api.GET('/api/v1/operations/{operation}', { params: { path: { operation: id } }, signal })),
  });
  const o = query.data;
  if (o && ended !== (o.state !== 'running')) setEnded(o.state !== 'running');
  return (
    <Page
      title={o ? titleOf(o) : 'Operation'}
      crumbs={crumbs}
      sub={o && <State operation={o} />}
      actions={o && (o.state === 'running' ? <Abort operation={o} /> : <Undo operation={o} />)}
    >
      <Loaded query={query} rows={4}>
        {(data) => <Content operation={data} at={query.dataUpdatedAt} />}
      </Loaded>
    </Page>
  );
}

function Content({ operation: o, at }: { operation: Operation; at: number }) {
  const [samples, setSamples] = useState<Sample[]>([]);
  const next = addSample(samples, { at, done: o.done + o.failed });
  if (next !== samples) setSamples(next);
  const perSecond = o.state === 'running' ? speed(next) : null;
  const rest = left(o, perSecond);
  const took = o.ended_at ? Date.parse(o.ended_at) - Date.parse(o.created_at) : null;
  return (
    <>
      <Progress operation={o} big />
      <dl className={css.numbers}>
        <div>
          <dt>Done</dt>
          <dd>
            {count(o.done)} <small>of {capped(o.count, o.more)}</small>
          </dd>
        </div>
        <div>
          <dt>Failed</dt>
          <dd className={o.failed ? 'bad' : ''}>{count(o.failed)}</dd>
        </div>
        <div>
          <dt>Rate</dt>
          <dd>
            {perSecond === null ? count(o.rate) : perSecond.toFixed(perSecond < 10 ? 1 : 0)}
            <small>/s{perSecond === null ? ' at most' : ` of at most ${count(o.rate)}/s`}</small>
          </dd>
        </div>
        {rest !== null && (
          <div>
            <dt>Left</dt>
            <dd>{duration(rest)}</dd>
          </div>
        )}
        {took !== null && (
          <div>
            <dt>Took</dt>
            <dd>{duration(took)}</dd>
          </div>
        )}
      </dl>
      {o.problem && <p className="bad">{o.problem}</p>}
      <Facts
        items={[
          [
            'Filter',
            <span key="f" className={css.chips}>
              {filterOf(o.filter).length === 0 ? 'all' : filterOf(o.filter).map(([k, v]) => <Chip key={k} name={k} value={v} />)}
            </span>,
          ],
          [
            'Covers',
            o.filter.operation ? (
              <Link key="l" to="/operations/$operation" params={{ operation: o.filter.operation }}>
                jobs that this operation changed
              </Link>
            ) : (
              <Link key="l" to={listOf(o.kind)} search={o.filter as never}>
                {nounOf(o.kind)[1]} that match now
              </Link>
            ),
          ],
          [
            'Begun by',
            <span key="b" title={o.created_by}>
              {actorName(o.created_by)}
            </span>,
          ],
          ['Begun', <When key="c" at={o.created_at} seconds ago />],
          !!o.ended_at && ['Ended', <When key="e" at={o.ended_at} seconds ago />],
          !!o.note && ['Note', o.note],
          [
            'Id',
            <span key="i" className="row">
              <code>{o.id}</code>
              <Copy text={o.id} label="Copy the id" />
            </span>,
          ],
        ]}
      />
      {o.failed > 0 && <Failed operation={o} />}
    </>
  );
}

/** The items that could not be changed. Operations on dead letters keep none: those stay dead letters. */
function Failed({ operation: o }: { operation: Operation }) {
  const list = useData({
    key: ['operation items', o.id, o.failed],
    get: (signal) =>
      unwrap(
        api.GET('/api/v1/operations/{operation}/items', {
          params: { path: { operation: o.id }, query: { result: 'failed', page_size: 100 } },
          signal,
        }),
      ),
    keep: true,
  });
  if (nounOf(o.kind)[0] === 'dead letter') {
    return (
      <Section title={`${plural(o.failed, 'dead letter')} could not be changed`} id="failed">
        <p>
          Their job is deleted, or the run is live. They are still{' '}
          <Link to="/dead-letters" search={o.filter as never}>
            dead letters
          </Link>
          .
        </p>
      </Section>
    );
  }
  return (
    <Section title="What failed" id="failed">
      <Loaded query={list} rows={3}>
        {(page) => (
          <>
            <Table
              label="Items that failed"
              rows={page.items}
              id={(i) => (i.run ?? i.job ?? '') + i.at}
              columns={[
                {
                  head: 'Item',
                  cell: (i) =>
                    i.run ? (
                      <Link to="/runs/$run" params={{ run: i.run }}>
                        {i.name ?? i.run}
                      </Link>
                    ) : i.job ? (
                      <Link to="/jobs/$job" params={{ job: i.job }}>
                        {i.name ?? i.job}
                      </Link>
                    ) : (
                      i.name
                    ),
                },
                { head: 'Why', cell: (i) => <span title={i.error}>{i.error}</span> },
                { head: 'At', width: '200px', from: 'tablet', cell: (i) => <When at={i.at} seconds utc={false} /> },
              ]}
            />
            {page.next_page_token && <p className="dim">The first {page.items.length} are shown.</p>}
          </>
        )}
      </Loaded>
    </Section>
  );
}

/** Restores the versions of jobs from before a relabel, a spread or an undo. */
function Undo({ operation: o }: { operation: Operation }) {
  const { may } = useSession();
  const [open, setOpen] = useState(false);
  if (!may('editor') || !['relabel', 'spread', 'undo'].includes(o.kind) || o.done === 0) return null;
  const undo: Bulk = {
    path: `/api/v1/operations/${o.id}:undo`,
    verb: 'Restore',
    noun: ['job', 'jobs'],
    explain: 'Each job gets the version back that it had before this operation. Jobs that were changed or deleted since are left alone.',
  };
  return (
    <>
      <Button icon="redo" onClick={() => setOpen(true)}>
        Undo…
      </Button>
      {open && <BulkDialog bulk={undo} scope={{ body: {}, words: [['Undoes', titleOf(o)]] }} close={() => setOpen(false)} />}
    </>
  );
}

function Abort({ operation: o }: { operation: Operation }) {
  const { may } = useSession();
  const [open, setOpen] = useState(false);
  const abort = useAction(() => unwrap(api.POST('/api/v1/operations/{operation}:abort', { params: { path: { operation: o.id } } })), {
    done: () => 'The operation is aborted.',
    quiet: true,
  });
  if (!may('operator')) return null;
  const rest = Math.max(0, o.count - o.done - o.failed);
  return (
    <>
      <Button tone="danger" icon="stop" onClick={() => setOpen(true)}>
        Abort…
      </Button>
      {open && (
        <Dialog
          open
          close={() => setOpen(false)}
          title="Abort the operation"
          action="Abort"
          danger
          busy={abort.isPending}
          error={abort.error}
          blocked={o.state === 'running' ? undefined : 'It has ended meanwhile'}
          act={() => abort.mutate(undefined, { onSuccess: () => setOpen(false) })}
        >
          <p>
            What is done stays done: {count(o.done)} so far.{' '}
            {o.more ? 'The rest stays' : `${plural(rest, 'remaining item')} ${rest === 1 ? 'stays' : 'stay'}`} as{' '}
            {rest === 1 ? 'it is' : 'they are'}.
          </p>
        </Dialog>
      )}
    </>
  );
}
