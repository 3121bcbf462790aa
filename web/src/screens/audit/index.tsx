import { Link } from '@tanstack/react-router';
import { api, unwrap } from '../../api/client';
import { usePages } from '../../api/pages';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { actorName } from '../../lib/actor';
import { useUrl } from '../../lib/search';
import { TextButton } from '../../ui/control';
import { FilterBar, filtered, type Field } from '../../ui/filter';
import { Endless, NewerPill } from '../../ui/list';
import { Page } from '../../ui/page';
import { Empty, Forbidden, ProblemView, Skeleton } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { When } from '../../ui/when';
import { now } from '../../lib/time';
import { Detail } from './detail';
import { actions, auditQuery, filterKeys, nameOf, pathOf, summary, type Entry } from './entries';
import { VerifyChain } from './verify';
import css from './audit.module.css';

const noun: [string, string] = ['entry', 'entries'];
const size = 50;

const fields: Field[] = [
  {
    key: 'actor',
    label: 'By',
    free: 'Name or id of a key',
    load: async () => (await unwrap(api.GET('/api/v1/keys'))).items.map((k) => ({ value: k.name, hint: k.role })),
  },
  { key: 'action', label: 'Action', free: 'job.pause, or job for all', options: actions.map((value) => ({ value })) },
  { key: 'object', label: 'Object', free: 'Id or name of the object' },
  {
    key: 'range',
    label: 'Within',
    show: (v) => ({ '1h': 'the last hour', '24h': 'the last 24 hours', '7d': 'the last 7 days', '30d': 'the last 30 days' })[v] ?? v,
    options: [
      { value: '1h', label: 'the last hour' },
      { value: '24h', label: 'the last 24 hours' },
      { value: '7d', label: 'the last 7 days' },
      { value: '30d', label: 'the last 30 days' },
    ],
  },
  { key: 'from', label: 'From', free: '2026-03-01, or a time in RFC 3339' },
  { key: 'to', label: 'Before', free: '2026-03-08, or a time in RFC 3339' },
];

const columns: Column<Entry>[] = [
  { head: 'When', width: '200px', cell: (e) => <When at={e.at} seconds utc={false} /> },
  { head: 'By', width: '260px', from: 'tablet', cell: (e) => <span title={e.actor}>{actorName(e.actor)}</span> },
  { head: 'Action', width: '150px', cell: (e) => <code>{e.action}</code> },
  {
    head: 'Object',
    from: 'tablet',
    cell: (e) => {
      const path = pathOf(e);
      return path ? (
        <Link to={path} title={e.object}>
          {nameOf(e)}
        </Link>
      ) : (
        <span title={e.object}>{nameOf(e)}</span>
      );
    },
  },
  {
    head: 'Detail',
    from: 'desktop',
    cell: (e) => (
      <span className="dim" title={summary(e.detail)}>
        {summary(e.detail) || '–'}
      </span>
    ),
  },
  { head: 'Seq', width: '72px', right: true, from: 'desktop', cell: (e) => <span className="dim">{e.seq}</span> },
];

/** Who changed what? */
export default function Audit() {
  const { may } = useSession();
  if (!may('admin'))
    return (
      <Page title="Audit">
        <Forbidden detail="The audit log needs the role admin." />
      </Page>
    );
  return <Log />;
}

function Log() {
  const [url, set] = useUrl();
  const list = usePages<Entry>({
    key: ['audit', ...filterKeys.map((k) => url[k] ?? '')],
    id: (e) => String(e.seq),
    hold: !!url.entry,
    get: (token, signal) =>
      unwrap(
        api.GET('/api/v1/audit', {
          params: { query: { ...auditQuery(url, now()), page_size: size, ...(token ? { page_token: token } : {}) } },
          ...(signal ? { signal } : {}),
        }),
      ),
  });
  const chosen = list.rows.find((e) => String(e.seq) === url.entry);
  const any = filtered(url, [...filterKeys]);
  const short = (list.last?.items.length ?? 0) < size;
  const newest = any ? 0 : (list.rows[0]?.seq ?? 0);
  return (
    <Page title="Audit" sub="Who changed what">
      <VerifyChain newest={newest} />
      <FilterBar fields={fields} />
      <NewerPill newer={list.newer} refresh={list.refresh} noun={noun} />
      {list.first.error && <ProblemView error={list.first.error} retry={() => void list.first.refetch()} quiet={list.rows.length > 0} />}
      {!list.first.data && !list.first.error && <Skeleton />}
      {list.first.data && (
        <div className={css.columns} data-open={chosen ? true : undefined}>
          <div>
            {list.rows.length > 0 && (
              <Table
                label="Audit log"
                rows={list.rows}
                id={(e) => String(e.seq)}
                columns={chosen ? columns.slice(0, 4) : columns}
                open={(e) => set({ entry: url.entry === String(e.seq) ? undefined : String(e.seq) })}
                rowClass={(e) => (e === chosen ? css.chosen : undefined)}
              />
            )}
            {list.rows.length === 0 &&
              !list.more &&
              (any ? (
                <Empty
                  title="No entry matches"
                  action={
                    <TextButton onClick={() => set(Object.fromEntries(filterKeys.map((k) => [k, undefined])))}>
                      Clear the filters
                    </TextButton>
                  }
                />
              ) : (
                <Empty title="The audit log is empty" command={commands.audit}>
                  Each change through the API writes one entry.
                </Empty>
              ))}
            {(list.rows.length > 0 || list.more) && <Endless list={list} short={short} noun={noun} />}
          </div>
          {chosen && <Detail entry={chosen} close={() => set({ entry: undefined })} />}
        </div>
      )}
    </Page>
  );
}
