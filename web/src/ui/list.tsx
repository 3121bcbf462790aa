import { count, plural } from '../lib/number';
import { Button } from './control';
import { ProblemView } from './state';
import css from './list.module.css';

type Noun = [one: string, many: string];

/** What came since the order of the rows was fixed. */
export function NewerPill({ newer, refresh, noun }: { newer: number; refresh: () => void; noun: Noun }) {
  if (newer === 0) return null;
  return (
    <button type="button" className={css.newer} onClick={() => { refresh(); window.scrollTo({ top: 0 }); }}>
      {plural(newer, `newer ${noun[0]}`, `newer ${noun[1]}`)}
    </button>
  );
}

type ListState = { rows: unknown[]; more: boolean; loading: boolean; error: Error | null; loadMore: () => Promise<void> };

/** Below a list: how much is shown, and the way on. A short page with a token is not the end: the search goes on. */
export function Endless({ list, short, noun }: { list: ListState; short: boolean; noun: Noun }) {
  const n = list.rows.length;
  const shown = `${count(n)} ${n === 1 ? noun[0] : noun[1]}`;
  return (
    <div className={css.foot}>
      {list.error && <ProblemView error={list.error} retry={() => void list.loadMore()} quiet />}
      <div className={css.line}>
        <span className="dim" role="status">
          {!list.more ? shown : short ? `Searched a part so far: ${n === 0 ? 'nothing found yet' : `${shown} found`}.`
            : `${shown} shown, more follow.`}
        </span>
        <span className="grow" />
        {list.more && <Button busy={list.loading}
          onClick={() => void list.loadMore()}>{list.loading ? 'Searching…' : short ? 'Go on' : 'Show more'}</Button>}
      </div>
    </div>
  );
}
