import { api, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import type { Timeline } from '../../api/jobs';
import { now } from '../../lib/time';

/** The timeline of a job in a range. Days of buckets begin in the zone. While now is in it, it is polled. */
export function useTimeline(job: string, range: { from: number; to: number }, zone: string) {
  const from = new Date(range.from).toISOString();
  const to = new Date(range.to).toISOString();
  return useData<Timeline>({
    key: ['timeline', job, from, to, zone],
    get: (signal) => unwrap(api.GET('/api/v1/jobs/{job}/timeline', { params: { path: { job }, query: { from, to, zone } }, signal })),
    ...(now() < range.to + 60_000 ? { every: 5000 } : {}),
    keep: true,
  });
}
