import { api, unwrap, type ApiProblem } from '../../api/client';
import { useData } from '../../api/live';
import type { Job } from '../../api/jobs';
import { actorName } from '../../lib/actor';
import { Copy, Tag } from '../../ui/control';
import { Page } from '../../ui/page';
import { ProblemView, Skeleton } from '../../ui/state';
import { When } from '../../ui/when';
import { History } from './history';
import css from './job.module.css';

/** A job that is deleted, by its id: its versions and its history stay, and can only be read. */
export function Deleted({ id, error }: { id: string; error: ApiProblem }) {
  const last = useData({
    key: ['deleted', id],
    get: async (signal) => {
      const { items } = await unwrap(api.GET('/api/v1/jobs/{job}/versions',
        { params: { path: { job: id }, query: { page_size: 1 } }, signal }));
      const version = items[0]?.version;
      if (version === undefined) throw error;
      return unwrap(api.GET('/api/v1/jobs/{job}/versions/{version}', { params: { path: { job: id, version } }, signal }));
    },
    enabled: id.startsWith('job_'),
  });
  const crumbs = [{ label: 'Jobs', link: { to: '/jobs' } }];
  if (!last.data) {
    const waits = last.isPending && last.isFetching;
    return <Page title={waits ? 'Job' : 'There is no such job'}
      crumbs={crumbs}>{waits ? <Skeleton /> : <ProblemView error={error} />}</Page>;
  }
  const v = last.data;
  const job: Job = {
    ...v.definition, id, state: 'finished', version: v.version, created_at: v.created_at, created_by: v.created_by,
      updated_at: v.created_at,
    updated_by: v.created_by, next_due_at: null, words: v.words, zone: v.zone,
  };
  return (
    <Page name={job.name} title={job.name} crumbs={crumbs}
      sub={<span className={css.sub}><Tag tone="bad">deleted</Tag><code>{id}</code><Copy text={id} /></span>}>
      <p className={css.description}>
        This job is deleted. Its last version is {v.version}, by {actorName(v.created_by)} at <When at={v.created_at}
          zone={v.zone} />. Its history can be read until it
        expires.
      </p>
      <History job={job} deleted />
    </Page>
  );
}
