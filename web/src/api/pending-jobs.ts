import type { Schemas } from './client';

// Answers about jobs and runs. Labels are not described yet.

export type Job = Schemas['Job'];

export type LabelKeys = { labels: { key: string; values: number; jobs: number }[]; partial: boolean };
export type LabelValues = { values: { value: string; jobs: number; more: boolean }[]; partial: boolean };

/** An occurrence in the timeline of a job: past, live or future. */
export type TimelineItem = Schemas['TimelineItem'];
export type TimelineBucket = Schemas['TimelineBucket'];
export type Timeline = Schemas['Timeline'];
export type JobStats = Schemas['JobStats'];
