import { keepPreviousData, QueryClient, useQuery, useQueryClient, type UseQueryOptions, type UseQueryResult } from '@tanstack/react-query';
import { createContext, useCallback, useContext, useEffect, useMemo, useState, type ReactNode } from 'react';
import { ApiProblem } from './client';

// Everything that changes is polled. A hidden tab asks nothing, and a tab without input for a minute asks five times
// more slowly. The user may pause it: nothing then moves under the cursor.

const idleAfter = 60_000;
const idleFactor = 5;

type Live = { paused: boolean; idle: boolean; setPaused: (paused: boolean) => void };

const LiveContext = createContext<Live>({ paused: false, idle: false, setPaused: () => {} });

export const useLive = () => useContext(LiveContext);

export const newQueryClient = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 1000,
        refetchOnWindowFocus: true,
        // A problem of the request itself is not retried. An overloaded or restarting node is, when it asks for it.
        retry: (n, e) => n < 3 && !(e instanceof ApiProblem && e.status >= 400 && e.status < 500 && e.status !== 429),
        retryDelay: (n, e) => Math.max(e instanceof ApiProblem ? e.retryAfter : 0, Math.min(500 * 2 ** n, 5000)),
      },
      mutations: { retry: false },
    },
  });

export function LiveProvider({ children }: { children: ReactNode }) {
  const [paused, setPaused] = useState(false);
  const [idle, setIdle] = useState(false);
  useEffect(() => {
    let timer = setTimeout(() => setIdle(true), idleAfter);
    const active = () => {
      setIdle(false);
      clearTimeout(timer);
      timer = setTimeout(() => setIdle(true), idleAfter);
    };
    const events = ['pointermove', 'pointerdown', 'keydown', 'wheel', 'focus'] as const;
    for (const e of events) window.addEventListener(e, active, { passive: true });
    return () => {
      clearTimeout(timer);
      for (const e of events) window.removeEventListener(e, active);
    };
  }, []);
  const value = useMemo(() => ({ paused, idle, setPaused }), [paused, idle]);
  return <LiveContext value={value}>{children}</LiveContext>;
}

type Options<T> = {
  key: readonly unknown[];
  get: (signal: AbortSignal) => Promise<T>;
  /** Milliseconds between polls; absent: read once. */
  every?: number;
  /** Whether to keep the data of the previous key while the next loads, such as for a filter that changes. */
  keep?: boolean;
  enabled?: boolean;
};

/** Data of the API that stays current by polling. */
export function useData<T>({ key, get, every, keep, enabled = true }: Options<T>): UseQueryResult<T, Error> {
  const { paused, idle } = useLive();
  const interval = every && !paused ? every * (idle ? idleFactor : 1) : false;
  const options: UseQueryOptions<T, Error> = {
    queryKey: key,
    queryFn: ({ signal }) => get(signal),
    enabled,
    refetchInterval: (q) => {
      const e = q.state.error;
      if (interval && e instanceof ApiProblem) return Math.max(interval, e.retryAfter);
      return interval;
    },
    meta: { every: interval || 0 },
  };
  if (keep) options.placeholderData = keepPreviousData as NonNullable<typeof options.placeholderData>;
  return useQuery(options);
}

/** Whether a read failed because the node did not answer. That it rejects a request says nothing about the age of the data. */
export const unanswered = (e: Error): boolean => !(e instanceof ApiProblem) || e.status === 0 || e.status === 429 || e.status >= 500;

/** The age of the oldest data on the screen that is polled, in milliseconds, and whether a poll has failed. */
export function useFreshness(): { age: number; failed: boolean; polled: boolean; every: number } {
  const client = useQueryClient();
  const read = useCallback(() => {
    let oldest = Infinity;
    let failed = false;
    let polled = false;
    let every = 0;
    for (const q of client.getQueryCache().findAll({ type: 'active' })) {
      const own = Number(q.meta?.every ?? 0);
      const error = q.state.error ?? q.state.fetchFailureReason;
      if (error && unanswered(error)) failed = true;
      if (!own || !q.state.dataUpdatedAt) continue;
      polled = true;
      every = Math.max(every, own);
      oldest = Math.min(oldest, q.state.dataUpdatedAt);
    }
    return { age: polled ? Date.now() - oldest : 0, failed, polled, every };
  }, [client]);
  const [state, setState] = useState(read);
  useEffect(() => {
    const t = setInterval(() => setState(read()), 1000);
    return () => clearInterval(t);
  }, [read]);
  return state;
}
