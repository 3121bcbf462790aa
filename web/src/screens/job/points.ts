import { kindOf, type Kind } from '../../ui/mark';

/** One run in the charts: when it was due, how late it began and how long it took, in milliseconds. */
export type Point = { at: number; late: number | undefined; took: number | undefined; kind: Kind; run?: string | undefined };

type RunLike = {
  due_at: string; run_at?: string; started_at?: string; ended_at?: string; state: string; reason?: string; attempt?: number;
  lateness_ms?: number; duration_ms?: number; run?: string; id?: string;
};

/** The runs that started. The start of a later attempt says nothing about lateness. */
export function pointsOf(runs: RunLike[]): Point[] {
  return runs.filter((r) => r.started_at || r.duration_ms !== undefined).map((r) => {
    const started = Date.parse(r.started_at ?? '');
    const first = (r.attempt ?? 1) <= 1;
    const late = r.lateness_ms ?? (first && r.run_at ? Math.max(0, started - Date.parse(r.run_at)) : undefined);
    const took = r.duration_ms ?? (r.ended_at && r.started_at ? Date.parse(r.ended_at) - started : undefined);
    return { at: Date.parse(r.due_at), late, took, kind: kindOf(r), run: r.run ?? r.id };
  }).sort((a, b) => a.at - b.at);
}

const decades = [1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000];

/** A logarithmic scale from a millisecond to the largest value, with its ticks. 0 is at the bottom. */
export function logScale(values: number[], height: number): { y: (ms: number) => number; ticks: number[] } {
  const top = Math.max(10, ...values);
  const max = decades.find((d) => d >= top) ?? top;
  const y = (ms: number) => height - (Math.log10(Math.max(ms, 1)) / Math.log10(max)) * height;
  const ticks = decades.filter((d) => d <= max);
  return { y, ticks: ticks.length > 5 ? ticks.filter((_, i) => (ticks.length - 1 - i) % 2 === 0) : ticks };
}
