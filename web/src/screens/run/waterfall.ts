import type { Schemas } from '../../api/client';

// The attempts of a run on one axis: waits, attempts and retry delays as shares of its whole time.

export type Attempt = Schemas['Attempt'];

export type Bar = { left: number; width: number; ms: number };
export type Row = {
  attempt: Attempt; took: number | undefined; wait: Bar | undefined; bar: Bar | undefined; live: boolean; sameMessage: boolean;
};
export type Waterfall = {
  rows: Row[]; from: number; to: number; ticks: { at: number; ms: number }[]; total: number;
  /** How long before the axis the run was due, if that is too far to be drawn. */
  dueBefore: number;
};

type RunTimes = { due_at: string; run_at: string; origin?: string; ended_at?: string; attempts: Attempt[] };

const time = (text: string | undefined): number | undefined => {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? undefined : ms;
};

const nice = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 3e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3,
  7200e3, 21600e3, 43200e3, 86400e3];

/** The distance of ticks that divides a span into at most `parts`. */
export const tickStep = (span: number, parts: number): number => nice.find((n) => span / n <= parts)
  ?? Math.ceil(span / parts / 86400e3) * 86400e3;

/** Lays out the attempts. `now` ends what is still in progress. */
export function waterfall(run: RunTimes, now: number): Waterfall {
  const due = Date.parse(run.due_at);
  const starts = run.attempts.map((a) => time(a.started_at)).filter((t) => t !== undefined);
  const first = Math.min(...starts, Infinity);
  const ends = run.attempts.map((a) => time(a.ended_at) ?? (isLive(a) ? now : undefined)).filter((t) => t !== undefined);
  const last = Math.max(...ends, ...starts, -Infinity);
  if (starts.length === 0) return { rows: run.attempts.map((a) => empty(a)), from: due, to: due, ticks: [], total: 0, dueBefore: 0 };
  // A backfilled or redriven run may have been due days ago: the axis then begins with the first attempt that is known.
  const active = Math.max(last - first, 1);
  const near = run.attempts[0]?.attempt === 1 && first - due <= 20 * active + 1000;
  const from = near ? Math.min(due, first) : first;
  const to = Math.max(last, from + 1);
  const span = to - from;
  const share = (a: number, b: number): Bar => ({ left: ((a - from) / span) * 100, width: (Math.max(b - a, 0) / span) * 100,
    ms: Math.max(b - a, 0) });
  let before = near ? from : undefined;
  let message: string | undefined;
  const rows = run.attempts.map((a): Row => {
    const start = time(a.started_at);
    const live = isLive(a);
    const end = time(a.ended_at) ?? (live ? now : undefined);
    const row: Row = {
      attempt: a, live, took: start !== undefined && end !== undefined ? Math.max(end - start, 0) : undefined,
      wait: start !== undefined && before !== undefined && start > before ? share(before, start) : undefined,
      bar: start === undefined ? undefined : share(start, end ?? start),
      sameMessage: !!a.message && a.message === message,
    };
    message = a.message ?? message;
    before = end ?? start ?? before;
    return row;
  });
  const step = tickStep(span, 6);
  const ticks = Array.from({ length: Math.floor(span / step) + 1 }, (_, i) => ({ at: ((i * step) / span) * 100, ms: i * step }));
  return { rows, from, to, ticks, total: to - (near ? due : from), dueBefore: near ? 0 : Math.max(0, first - due) };
}

const isLive = (a: Attempt): boolean => a.state === 'running' || a.state === 'accepted';

const empty = (a: Attempt): Row => ({ attempt: a, took: undefined, wait: undefined, bar: undefined, live: isLive(a), sameMessage: false });
