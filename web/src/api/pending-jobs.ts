import type { Schemas } from './client';

// Shapes of answers about jobs and runs whose description is not generated yet.

export type Job = Schemas['Job'];

export type LabelKeys = { labels: { key: string; values: number; jobs: number }[]; partial: boolean };
export type LabelValues = { values: { value: string; jobs: number; more: boolean }[]; partial: boolean };

/** What a bulk action would act on, counted by the server. */
export type BulkCount = {
  count: number;
  more: boolean;
  sample: (string | { id?: string; name?: string; job?: string; run?: string; job_name?: string })[];
};
export type BulkOperation = Schemas['Operation'];

/** An occurrence in the timeline of a job: past, live or future. */
export type TimelineItem = Schemas['TimelineItem'];
export type TimelineBucket = Schemas['TimelineBucket'];
export type Timeline = Schemas['Timeline'];

export type JobStats = {
  runs: number; succeeded: number; failed: number; skipped: number; success_rate?: number; duration_ms?: { p50?: number; p95?: number };
  lateness_ms?: { p50?: number; p95?: number }; streak?: { state: string; count: number }; last_success_at?: string; last_failure_at?: string; partial?: boolean;
};
