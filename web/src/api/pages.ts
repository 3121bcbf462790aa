import { useCallback, useEffect, useRef, useState } from 'react';
import { useData } from './live';

export type PageOf<T> = { items: T[]; next_page_token?: string };

type Options<T> = {
  /** Of the list with its filters. Another key begins a new list. */
  key: readonly unknown[];
  get: (token: string | undefined, signal?: AbortSignal) => Promise<PageOf<T>>;
  id: (row: T) => string;
  every?: number;
  /** How many rows a whole page has. A page with fewer is read on, unless it is the last one. */
  size?: number;
  /** Keeps the order of the rows, such as while rows are selected or a dialog is open. */
  hold?: boolean;
};

const maxEmptyPages = 20;
const fillTime = 2000;

/** A page of the list. The server may end a page early: what follows is added until it has `size` rows, or two seconds are over. */
export async function fullPage<T>(
  get: (token: string | undefined) => Promise<PageOf<T>>, token: string | undefined, size: number, clock = () => performance.now(),
): Promise<PageOf<T>> {
  const end = clock() + fillTime;
  let page = await get(token);
  while (page.next_page_token && page.items.length < size && clock() < end) {
    const next = await get(page.next_page_token);
    page = { ...next, items: [...page.items, ...next.items] };
  }
  return page;
}

/** Whether a page was cut short that had more rows before: the old one stays, with the content of the new one. */
export const cutShort = <T>(old: PageOf<T>, fresh: PageOf<T>): boolean => !!fresh.next_page_token && fresh.items.length < old.items.length;

/** The rows of all pages once each, with the newest content that is known of each. */
export function mergeRows<T>(pages: T[][], fresh: T[], id: (row: T) => string): T[] {
  const latest = new Map(fresh.map((row) => [id(row), row]));
  const seen = new Set<string>();
  const rows: T[] = [];
  for (const row of pages.flat()) {
    const k = id(row);
    if (seen.has(k)) continue;
    seen.add(k);
    rows.push(latest.get(k) ?? row);
  }
  return rows;
}

/**
 * A list that is read page by page. The first page is polled. Once more pages are loaded, or while `hold`, the rows keep
 * their order and only their content changes: `newer` counts what the first page has besides, and `refresh` shows it.
 */
export function usePages<T>({ key, get, id, every = 5000, size = 1, hold = false }: Options<T>) {
  const first = useData({ key, get: (signal) => fullPage((t) => get(t, signal), undefined, size), every, keep: true });
  const name = JSON.stringify(key);
  const [base, setBase] = useState<{ name: string; page: PageOf<T> } | null>(null);
  const [more, setMore] = useState<{ name: string; pages: PageOf<T>[] }>({ name, pages: [] });
  const [loading, setLoading] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const current = useRef(name);
  useEffect(() => {
    current.current = name;
  }, [name]);

  const pages = more.name === name ? more.pages : [];
  const held = (hold || pages.length > 0) && base?.name === name;
  const fresh = first.isPlaceholderData ? undefined : first.data;
  if (fresh && !held && (base?.name !== name || (base.page !== fresh && !cutShort(base.page, fresh)))) setBase({ name, page: fresh });

  const start = base?.name === name ? base.page : first.data;
  const last = pages[pages.length - 1] ?? start;
  const token = first.isPlaceholderData ? undefined : last?.next_page_token;
  const rows = start ? mergeRows([start.items, ...pages.map((p) => p.items)], fresh?.items ?? [], id) : [];
  let newer = 0;
  if (held && fresh) {
    const known = new Set(rows.map(id));
    newer = fresh.items.filter((row) => !known.has(id(row))).length;
  }

  const busy = useRef(false);
  const loadMore = useCallback(async () => {
    if (!token || busy.current) return;
    busy.current = true;
    setLoading(true);
    setError(null);
    try {
      const page = await fullPage(get, token, size);
      if (current.current === name) setMore((m) => ({ name, pages: [...(m.name === name ? m.pages : []), page] }));
    } catch (e) {
      if (current.current === name) setError(e as Error);
    } finally {
      busy.current = false;
      setLoading(false);
    }
    // `get` is a new function on each render and depends on the key alone.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [name, token]);

  // A page may be empty although rows follow: the search goes on by itself until it has found one, but not without end.
  useEffect(() => {
    if (rows.length === 0 && token && !loading && !error && pages.length < maxEmptyPages) void loadMore();
  }, [rows.length, token, loading, error, pages.length, loadMore]);

  const refresh = () => {
    setMore({ name, pages: [] });
    setBase(null);
    setError(null);
    void first.refetch();
  };
  return { first, rows, newer, refresh, loadMore, loading, error, more: !!token, last, stale: first.isPlaceholderData };
}
