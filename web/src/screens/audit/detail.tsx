import { Link } from '@tanstack/react-router';
import { api, ApiProblem, text, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import { inputForm } from '../../lib/definition';
import { isObject, parseExact } from '../../lib/json';
import { Button, Copy } from '../../ui/control';
import { When } from '../../ui/when';
import { against, nameOf, pathOf, rowsOf, versionOf, versionRows, type Entry, type Row } from './entries';
import css from './audit.module.css';

/** What an entry says, and what it changed. */
export function Detail({ entry, close }: { entry: Entry; close: () => void }) {
  const path = pathOf(entry);
  const version = versionOf(entry);
  return (
    <aside className={css.detail} aria-label={`Entry ${entry.seq}`}>
      <div className="row">
        <h2 className="grow">Entry {entry.seq}</h2>
        <Button tone="quiet" iconOnly icon="close" onClick={close}>
          Close
        </Button>
      </div>
      <dl className={css.facts}>
        <div>
          <dt>When</dt>
          <dd>
            <When at={entry.at} seconds />
          </dd>
        </div>
        <div>
          <dt>By</dt>
          <dd>{entry.actor}</dd>
        </div>
        <div>
          <dt>Action</dt>
          <dd>
            <code>{entry.action}</code>
          </dd>
        </div>
        <div>
          <dt>Object</dt>
          <dd>
            {path ? <Link to={path}>{nameOf(entry)}</Link> : nameOf(entry)}
            {nameOf(entry) !== entry.object && <code className="dim"> {entry.object}</code>}
          </dd>
        </div>
        <div>
          <dt>Hash</dt>
          <dd className="row">
            <code className="clip">{entry.hash}</code>
            <Copy text={entry.hash} label="Copy the hash" />
          </dd>
        </div>
      </dl>
      {version !== null && version > 1 && <VersionChange job={entry.object} version={version} />}
      {entry.action === 'queue.limit' && <LimitChange entry={entry} />}
      <h3>Detail</h3>
      <Rows rows={rowsOf(entry.detail)} none="It has no detail." />
      <p className="dim">
        <Link to="/audit" search={{ object: entry.object } as never}>
          All entries about this object
        </Link>
      </p>
    </aside>
  );
}

export function Rows({ rows, none }: { rows: Row[]; none: string }) {
  if (rows.length === 0) return <p className="dim">{none}</p>;
  const changed = rows.some((r) => r.before !== undefined);
  return (
    <table className={css.rows} aria-label={changed ? 'Changes' : 'Fields'}>
      {changed && (
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
      )}
      <tbody>
        {rows.map((r) => (
          <tr key={r.field}>
            <th scope="row">{r.field}</th>
            {changed && <td>{r.before !== undefined && <del>{r.before}</del>}</td>}
            <td>{r.before !== undefined ? <ins>{r.after}</ins> : r.after}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

async function definition(job: string, version: number, signal: AbortSignal) {
  const tree = parseExact(await text(`/api/v1/jobs/${job}/versions/${version}`, signal));
  return inputForm(isObject(tree) && isObject(tree.definition) ? tree.definition : tree);
}

/** The fields that this version of a job changed. */
function VersionChange({ job, version }: { job: string; version: number }) {
  const diff = useData<Row[] | null>({
    key: ['audit version', job, version],
    get: async (signal) => {
      try {
        const [before, after] = await Promise.all([definition(job, version - 1, signal), definition(job, version, signal)]);
        return versionRows(before, after);
      } catch (e) {
        if (e instanceof ApiProblem && e.status === 404) return null; // pruned with the job
        throw e;
      }
    },
  });
  if (!diff.data) return null;
  return (
    <>
      <h3>Changed in version {version}</h3>
      <Rows rows={diff.data} none="Nothing in the definition." />
    </>
  );
}

/** What the limits were before: the entry before this one about the limits of the queue. */
function LimitChange({ entry }: { entry: Entry }) {
  const earlier = useData({
    key: ['audit limits', entry.object, entry.seq],
    get: (signal) =>
      unwrap(
        api.GET('/api/v1/audit', { params: { query: { object: entry.object, action: 'queue', to: entry.at, page_size: 100 } }, signal }),
      ),
  });
  const last = earlier.data?.items.find((e) => e.seq < entry.seq && (e.action === 'queue.limit' || e.action === 'queue.create'));
  if (!earlier.data) return null;
  return (
    <>
      <h3>Changed limits</h3>
      <Rows rows={against(last?.detail ?? {}, entry.detail)} none="The limits stayed as they were." />
    </>
  );
}
