import { useMemo } from 'react';
import { api, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import type { Timeline } from '../../api/jobs';
import { zoneOffset } from '../../lib/time';

/** The timeline of a job in a range. While now is in it, it is polled. */
export function useTimeline(job: string, range: { from: number; to: number }) {
  const from = new Date(range.from).toISOString();
  const to = new Date(range.to).toISOString();
  const query = useData<Timeline>({
    key: ['timeline', job, from, to],
    get: (signal) => unwrap(api.GET('/api/v1/jobs/{job}/timeline', { params: { path: { job }, query: { from, to } }, signal })),
    ...(Date.now() < range.to + 60_000 ? { every: 5000 } : {}),
    keep: true,
  });
  const zone = query.data?.zone ?? 'UTC';
  const offset = useMemo(() => (at: number) => zoneOffset(at, zone), [zone]);
  return { ...query, offset };
}
