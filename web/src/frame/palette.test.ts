import { expect, it } from 'vitest';
import { ranked } from './palette';

const jobs = ['partner-feed', 'feed-partner-17', 'feed-partner-1', 'other'].map((name) => ({ name }));

it('lists only jobs that match what is typed, and those that begin with it first', () => {
  expect(ranked(jobs, 'FEED-partner-1').map((j) => j.name)).toEqual(['feed-partner-1', 'feed-partner-17']);
  expect(ranked(jobs, 'feed').map((j) => j.name)).toEqual(['feed-partner-17', 'feed-partner-1', 'partner-feed']);
  expect(ranked(jobs, 'feed-partner-17x')).toEqual([]);
});
