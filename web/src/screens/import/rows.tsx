import { Link } from '@tanstack/react-router';
import { Fragment, useState, type ReactNode } from 'react';
import { count, plural } from '../../lib/number';
import { useUrl } from '../../lib/search';
import { Button, Tag } from '../../ui/control';
import { Icon } from '../../ui/icon';
import { Empty } from '../../ui/state';
import { ChangeList } from '../editor/changes';
import type { Done, Result, Row } from './api';
import css from './import.module.css';

const words: Record<Result, string> = { create: 'Create', change: 'Change', same: 'Same', refused: 'Refused' };
const signs: Record<Result, 'plus' | 'edit' | 'check' | 'warning'> = {
  create: 'plus',
  change: 'edit',
  same: 'check',
  refused: 'warning',
};
const order: Result[] = ['create', 'change', 'same', 'refused'];
const page = 200;

const doneWords: Record<Done['result'], string> = { created: 'created', changed: 'changed', same: 'unchanged', refused: 'refused' };

/** The rows by result, each with its fields, and what came of it. */
export function Rows({
  rows,
  done,
  actions,
  notice,
}: {
  rows: Row[];
  done: ReadonlyMap<number, Done>;
  actions: ReactNode;
  notice: ReactNode;
}) {
  const [url, setURL] = useUrl();
  const [shown, setShown] = useState(page);
  const only = order.find((r) => r === url.show);
  const of = (result: Result) => rows.filter((r) => r.result === result).length;
  const list = only ? rows.filter((r) => r.result === only) : rows;
  const sum = (key: 'before' | 'after') => rows.reduce((n, r) => n + (r[key] ?? 0), 0);
  const counted = rows.some((r) => r.after !== undefined);
  return (
    <>
      <div className={css.strip}>
        {order.map((r) => (
          <button
            key={r}
            type="button"
            aria-pressed={only === r}
            onClick={() => {
              setShown(page);
              setURL({ show: only === r ? undefined : r });
            }}
            data-result={r}
            data-none={of(r) === 0 || undefined}
          >
            <span>
              <Icon name={signs[r]} size={14} />
              {words[r]}
            </span>
            <b>{count(of(r))}</b>
          </button>
        ))}
        {counted && (
          <div>
            <span>Occurrences in 24 hours</span>
            <b>
              {count(sum('before'))} → {count(sum('after'))}
            </b>
          </div>
        )}
        <div className={css.actions}>{actions}</div>
      </div>
      {done.size > 0 && (
        <p className={css.summary} role="status">
          {summary(done)}
        </p>
      )}
      {notice}
      {list.length === 0 ? (
        <Empty
          title={rows.length === 0 ? 'The file has no jobs' : 'No line has this result'}
          action={only && <Button onClick={() => setURL({ show: undefined })}>Show all</Button>}
        />
      ) : (
        <table className={css.table}>
          <caption className="sr">What the file would change</caption>
          <thead>
            <tr>
              <th scope="col" className="right">
                Line
              </th>
              <th scope="col">Job</th>
              <th scope="col">Result</th>
              <th scope="col">What changes</th>
            </tr>
          </thead>
          <tbody>
            {list.slice(0, shown).map((r) => (
              <OneRow key={r.id} row={r} done={done.get(r.id)} />
            ))}
          </tbody>
        </table>
      )}
      {list.length > shown && (
        <div className={css.more}>
          <Button onClick={() => setShown(shown + page)}>
            Show {count(Math.min(page, list.length - shown))} more of {count(list.length)}
          </Button>
        </div>
      )}
    </>
  );
}

function summary(done: ReadonlyMap<number, Done>): string {
  const counts = new Map<string, number>();
  for (const d of done.values()) counts.set(doneWords[d.result], (counts.get(doneWords[d.result]) ?? 0) + 1);
  return [...counts].map(([w, n]) => `${count(n)} ${w}`).join(', ') + '.';
}

function OneRow({ row, done }: { row: Row; done: Done | undefined }) {
  const [open, setOpen] = useState(false);
  const detail = row.changes.length > 0;
  const fields = row.changes.length + (row.more ?? 0);
  const exists = row.result === 'change' || row.result === 'same' || done?.result === 'created';
  return (
    <Fragment>
      <tr data-open={open || undefined}>
        <td className="right dim num">{row.line || '–'}</td>
        <td className={css.name}>
          {row.name ? (
            exists ? (
              <Link to="/jobs/$job" params={{ job: done?.id || row.name } as never}>
                {row.name}
              </Link>
            ) : (
              row.name
            )
          ) : (
            <span className="dim">–</span>
          )}
        </td>
        <td>
          {done ? (
            <Tag tone={done.result === 'refused' ? 'bad' : 'ok'}>{doneWords[done.result]}</Tag>
          ) : (
            <span className={css.result} data-result={row.result}>
              <Icon name={signs[row.result]} size={14} />
              {words[row.result]}
            </span>
          )}
        </td>
        <td>
          <div className={css.what}>
            {detail && (
              <button type="button" className={css.toggle} aria-expanded={open} onClick={() => setOpen(!open)}>
                <Icon name={open ? 'down' : 'right'} size={14} />
                {plural(fields, 'field')}
                <span className="dim clip">
                  {row.changes
                    .slice(0, 4)
                    .map((c) => c.path.join('.'))
                    .join(', ')}
                  {fields > 4 && ' …'}
                </span>
              </button>
            )}
            {!detail && fields > 0 && <span>{plural(fields, 'field')}, too many to show</span>}
            {row.problems.map((p, i) => (
              <span key={i} className="bad">
                {p}
              </span>
            ))}
            {done?.problem && <span className="bad">{done.problem}</span>}
            {row.after !== undefined && row.before !== row.after && (
              <span className="dim num">
                {row.before === undefined ? '' : `${count(row.before)} → `}
                {plural(row.after, 'occurrence')} in 24 hours
              </span>
            )}
          </div>
        </td>
      </tr>
      {open && (
        <tr className={css.detail}>
          <td />
          <td colSpan={3}>
            <ChangeList list={row.changes} label={`Fields of ${row.name} that change`} />
            {row.more !== undefined && row.more > 0 && (
              <p className="dim">{plural(row.more, 'more field')} would change. The answer has no space for them.</p>
            )}
          </td>
        </tr>
      )}
    </Fragment>
  );
}
