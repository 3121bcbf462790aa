import type { Schemas } from './client';

// Shapes of answers whose description is not generated yet.

export type Minute = {
  at: string; counted: boolean; started: number; succeeded: number; failed: number; skipped: number; missed: number; late: number; p50_ms?: number; p99_ms?: number;
};

export type Overview = {
  now: string;
  late: { runs: number; more: boolean; oldest_due_at?: string };
  lateness_5m: { p50_ms?: number; p99_ms?: number };
  due_next_5m: number;
  due_next_5m_exact: boolean;
  running: number;
  accepted: number;
  retrying: number;
  ended_1h: { succeeded: number; failed: number; cancelled: number; skipped: number; missed: number };
  ended_1h_incomplete?: boolean;
  dead_letters: { count: number; more: boolean };
  paused: { jobs: number; queues: number; more: boolean };
  broken: number;
  unowned: number;
  audit: { until?: string; missing: number; checked: number };
  minutes: Minute[];
  attention: { code: string; text: string; count: number; queue?: string; cause?: string }[];
  failing: { job: string; job_name: string; failed_1h: number; message?: string; recent?: { state: string; reason?: string; attempt?: number }[] }[];
};

export type DeadLetter = Schemas['DeadLetter'];

export type DeadGroup = Schemas['DeadLetterGroup'];

export type DeadSummary = Schemas['DeadLetterSummary'];

export type Load = Schemas['Load'];

export type LoadSchedule = Schemas['LoadSchedule'];

export type FieldProblem = { field: string; problem: string; fix?: string };

export type DiffItem = {
  line: number; name?: string; result: 'create' | 'change' | 'same' | 'refused';
  fields?: { field: string; before?: unknown; after?: unknown }[]; problems?: FieldProblem[];
  occurrences_before?: number; occurrences_after?: number;
};

export type JobsDiff = { created: number; changed: number; unchanged: number; refused: number; items: DiffItem[] };

export type CrontabImport = { jobs: unknown[]; problems: { line: number; text: string; problem: string }[] };
