import { Link, useNavigate } from '@tanstack/react-router';
import { api, unwrap, type Schemas } from '../../api/client';
import { usePages } from '../../api/pages';
import { commands } from '../../lib/commands';
import { actorName } from '../../lib/actor';
import { capped, count } from '../../lib/number';
import { Endless, NewerPill } from '../../ui/list';
import { Page } from '../../ui/page';
import { Empty, ProblemView, Skeleton } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { Ago } from '../../ui/when';
import { Progress, State } from './progress';
import { filterOf, titleOf } from './words';
import css from './operations.module.css';

type Operation = Schemas['Operation'];

const noun: [string, string] = ['operation', 'operations'];

const columns: Column<Operation>[] = [
  {
    head: 'Operation',
    width: '240px',
    cell: (o) => (
      <Link to="/operations/$operation" params={{ operation: o.id }} className={css.link}>
        {titleOf(o)}
      </Link>
    ),
  },
  { head: 'State', width: '110px', cell: (o) => <State operation={o} /> },
  {
    head: 'Progress',
    width: '190px',
    from: 'tablet',
    cell: (o) => (
      <span className={css.cell}>
        <Progress operation={o} />
        <span className="num">{Math.floor(o.progress * 100)} %</span>
      </span>
    ),
  },
  {
    head: 'Failed',
    width: '76px',
    right: true,
    from: 'tablet',
    cell: (o) => <span className={o.failed ? 'bad' : 'dim'}>{count(o.failed)}</span>,
  },
  { head: 'Filter', from: 'desktop', cell: (o) => <Filter filter={o.filter} /> },
  {
    head: 'Rate',
    width: '84px',
    right: true,
    from: 'desktop',
    cell: (o) => (
      <>
        {count(o.rate)}
        <span className="dim">/s</span>
      </>
    ),
  },
  { head: 'By', width: '260px', from: 'tablet', cell: (o) => <span title={o.created_by}>{actorName(o.created_by)}</span> },
  { head: 'Begun', width: '100px', right: true, cell: (o) => <Ago at={o.created_at} /> },
];

function Filter({ filter }: { filter: Record<string, string> }) {
  const parts = filterOf(filter);
  if (parts.length === 0) return <span className="dim">all</span>;
  return (
    <>
      {parts.map(([k, v], i) => (
        <span key={k}>
          {i > 0 && <span className="dim"> · </span>}
          <span className="dim">{k}</span> {v}
        </span>
      ))}
    </>
  );
}

/** Which bulk work is under way, and how far is it? */
export default function Operations() {
  const navigate = useNavigate();
  const list = usePages<Operation>({
    key: ['operations'],
    id: (o) => o.id,
    every: 2000,
    get: (token, signal) =>
      unwrap(
        api.GET('/api/v1/operations', {
          params: { query: { page_size: 50, ...(token ? { page_token: token } : {}) } },
          ...(signal ? { signal } : {}),
        }),
      ),
  });
  const running = list.rows.filter((o) => o.state === 'running').length;
  return (
    <Page title="Operations" sub={list.first.data && (running > 0 ? `${capped(running, false)} under way` : 'none under way')}>
      <NewerPill newer={list.newer} refresh={list.refresh} noun={noun} />
      {list.first.error && <ProblemView error={list.first.error} retry={() => void list.first.refetch()} quiet={list.rows.length > 0} />}
      {!list.first.data && !list.first.error && <Skeleton />}
      {list.first.data &&
        (list.rows.length === 0 ? (
          <Empty title="There was no operation yet" command={commands.redrive}>
            Work on many jobs, runs or dead letters is an operation: nodes do it in the background at a rate, and you can abort it.
          </Empty>
        ) : (
          <>
            <Table
              label="Operations"
              rows={list.rows}
              id={(o) => o.id}
              columns={columns}
              open={(o) => void navigate({ to: '/operations/$operation', params: { operation: o.id } })}
            />
            <Endless list={list} short={false} noun={noun} />
          </>
        ))}
    </Page>
  );
}
