import type { UseQueryResult } from '@tanstack/react-query';
import { useEffect, useState, type ReactNode } from 'react';
import { ApiProblem } from '../api/client';
import { Button, Command } from './control';
import { Icon } from './icon';
import css from './state.module.css';

/** Grey lines in the place of content, after 150 ms: a fast answer shows no flash. */
export function Skeleton({ rows = 8, label = 'Loading' }: { rows?: number; label?: string }) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const t = setTimeout(() => setShown(true), 150);
    return () => clearTimeout(t);
  }, []);
  return (
    <div className={css.skeleton} role="status" aria-label={label} data-state="loading">
      {shown && Array.from({ length: rows }, (_, i) => <span key={i} style={{ width: `${92 - (i * 17) % 40}%` }} />)}
    </div>
  );
}

/** A problem: what is wrong, its code, the id of the request, and a retry. */
export function ProblemView({ error, retry, quiet }: { error: Error; retry?: () => void; quiet?: boolean }) {
  if (error instanceof ApiProblem && error.status === 403) return <Forbidden detail={error.detail} />;
  const p = error instanceof ApiProblem ? error : null;
  return (
    <div className={quiet ? css.notice : css.problem} role="alert" data-state="error">
      <Icon name="warning" />
      <div className={css.text}>
        <p>{error.message}</p>
        {p && p.problems.length > 0 && (
          <ul>{p.problems.slice(0, 20).map((x, i) => <li key={i}><code>{x.field}</code> {x.problem}{x.fix && `: ${x.fix}`}</li>)}</ul>
        )}
        {p && (p.code || p.requestId) && (
          <p className="dim">{p.code && <code>{p.code}</code>} {p.requestId && <>request <code>{p.requestId}</code></>}</p>
        )}
      </div>
      {retry && <Button onClick={retry} icon="redo">Try again</Button>}
    </div>
  );
}

export function Forbidden({ detail }: { detail: string }) {
  return (
    <div className={css.empty} data-state="forbidden">
      <Icon name="key" size={24} />
      <h2>Your key may not see this</h2>
      <p>{detail}</p>
    </div>
  );
}

/** Nothing to show. By a filter: how to clear it. Without one: what to do first, with the command line that does it. */
export function Empty({ title, children, command, action }: { title: string; children?: ReactNode; command?: string; action?: ReactNode }) {
  return (
    <div className={css.empty} data-state="empty">
      <h2>{title}</h2>
      {children && <div>{children}</div>}
      {action}
      {command && <Command>{command}</Command>}
    </div>
  );
}

/** Shows the data of a query, or its state. Old data stays, greyed, while a later read fails. */
export function Loaded<T>({ query, rows, children }: { query: UseQueryResult<T, Error>; rows?: number; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) {
    return (
      <>
        {query.error && <ProblemView error={query.error} retry={() => void query.refetch()} quiet />}
        <div className={query.error ? 'stale' : undefined}>{children(query.data)}</div>
      </>
    );
  }
  if (query.error) return <ProblemView error={query.error} retry={() => void query.refetch()} />;
  return <Skeleton {...(rows === undefined ? {} : { rows })} />;
}
