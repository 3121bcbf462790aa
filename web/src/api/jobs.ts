import type { Schemas } from './client';

// Short names of answers about jobs.

export type Job = Schemas['Job'];

/** An occurrence in the timeline of a job: past, live or future. */
export type TimelineItem = Schemas['TimelineItem'];
export type TimelineBucket = Schemas['TimelineBucket'];
export type Timeline = Schemas['Timeline'];
export type JobStats = Schemas['JobStats'];
