import { Menu } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { useEffect } from 'react';
import { api, ApiProblem, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import type { Job } from '../../api/jobs';
import { useSession } from '../../api/session';
import { useShortcut } from '../../frame/keys';
import { actorName } from '../../lib/actor';
import { scheduleText, targetText } from '../../lib/target';
import { date } from '../../lib/time';
import { Button, Code, Copy, LinkButton, Tag } from '../../ui/control';
import { Icon } from '../../ui/icon';
import { Mark, Spark, kindOf } from '../../ui/mark';
import { Facts, Page } from '../../ui/page';
import { ProblemView, Skeleton } from '../../ui/state';
import { Ago, When } from '../../ui/when';
import { Deleted } from './deleted';
import { useJobDialogs, type JobAct } from './dialogs';
import { History } from './history';
import css from './job.module.css';

/** What did this job do, what will it do, and why? */
export default function JobScreen() {
  const { job: id } = useParams({ strict: false }) as { job: string };
  const job = useData<Job>({
    key: ['job', id],
    get: (signal) => unwrap(api.GET('/api/v1/jobs/{job}', { params: { path: { job: id }, query: { include: 'recent' } }, signal })),
    every: 5000,
  });
  // A name leads to the id, which stays the same when the job is renamed.
  const client = useQueryClient();
  const navigate = useNavigate();
  const own = job.data?.id;
  useEffect(() => {
    if (own === undefined || own === id) return;
    client.setQueryData(['job', own], job.data);
    void navigate({ to: '.', params: ((old: Record<string, string>) => ({ ...old, job: own })) as never, search: true as never,
      replace: true, resetScroll: false });
  }, [own, id, client, navigate, job.data]);
  if (job.error instanceof ApiProblem && job.error.status === 404) return <Deleted id={id} error={job.error} />;
  if (!job.data) {
    return <Page title="Job" crumbs={[{ label: 'Jobs', link: { to: '/jobs' } }]}>{job.error ? <ProblemView error={job.error}
      retry={() => void job.refetch()} /> : <Skeleton />}</Page>;
  }
  return (
    <>
      {job.error && <ProblemView error={job.error} retry={() => void job.refetch()} quiet />}
      <JobPage job={job.data} key={job.data.id} />
    </>
  );
}

function JobPage({ job }: { job: Job }) {
  const navigate = useNavigate();
  const { may } = useSession();
  const dialogs = useJobDialogs((act) => act === 'delete' && void navigate({ to: '/jobs' }));
  const show = (act: JobAct) => () => dialogs.show(act, job);
  useShortcut('t', show('trigger'), may('operator'));
  useShortcut('p', show(job.state === 'paused' ? 'resume' : 'pause'), may('operator') && job.state !== 'finished');
  useShortcut('e', () => void navigate({ to: '/jobs/$job/edit', params: { job: job.id } }), may('editor'));
  return (
    <Page name={job.name} crumbs={[{ label: 'Jobs', link: { to: '/jobs' } }]}
      title={<span className={css.title}>{job.name}</span>}
      sub={<Sub job={job} />}
      actions={
        <>
          {may('operator') && <Button icon="play" onClick={show('trigger')}>Trigger…</Button>}
          {may('operator') && (job.state === 'paused'
            ? <Button icon="redo" tone="primary" onClick={show('resume')}>Resume…</Button>
            : <Button icon="pause" onClick={show('pause')}
              blocked={job.state === 'finished' ? 'The job has no occurrence left' : undefined}>Pause…</Button>)}
          {may('operator') && <span className="desktop"><Button onClick={show('backfill')}>Backfill…</Button></span>}
          {may('editor') && <LinkButton to="/jobs/$job/edit" params={{ job: job.id }}>Edit</LinkButton>}
          {may('operator') && (
            <Menu position="bottom-end" width={190}>
              <Menu.Target><Button iconOnly icon="more">More actions</Button></Menu.Target>
              <Menu.Dropdown>
                <Menu.Item leftSection={<Icon name="redo" size={14} />} onClick={show('backfill')}>Backfill…</Menu.Item>
                <Menu.Item leftSection={<Icon name="runs" size={14} />} component={Link} to="/runs"
                  search={{ job: job.id } as never}>All runs</Menu.Item>
                {may('editor') && <Menu.Item color="var(--bad)" leftSection={<Icon name="trash" size={14} />}
                  onClick={show('delete')}>Delete…</Menu.Item>}
              </Menu.Dropdown>
            </Menu>
          )}
        </>
      }>
      {job.state === 'paused' && <Paused job={job} />}
      {job.description && <p className={css.description}>{job.description}</p>}
      <JobFacts job={job} />
      <History job={job} />
      {dialogs.dialog}
    </Page>
  );
}

function Sub({ job }: { job: Job }) {
  return (
    <span className={css.sub}>
      <State job={job} />
      <span>
        version {job.version}, {date(Date.parse(job.updated_at))} by {actorName(job.updated_by)}{' '}
        <Copy text={job.id} label={`Copy the id ${job.id}`} />
      </span>
    </span>
  );
}

const State = ({ job }: { job: Job }) =>
  <Tag tone={job.state === 'paused' ? 'warn' : ''}>{job.state}</Tag>;

function Paused({ job }: { job: Job }) {
  const belfry = job.paused_by === 'belfry';
  return (
    <div className={css.paused} role="status">
      <Mark kind="paused" label="" />
      <p>
        <b>Paused by {belfry ? 'Belfry itself' : actorName(job.paused_by)}</b> {job.paused_at
          && <Ago at={job.paused_at} />}{job.note ? <>: “{job.note}”</> : '.'}{' '}
        {job.paused_until ? <>Belfry resumes it at <When at={job.paused_until} zone={job.zone} ago />.</> : 'A user has to resume it.'}
      </p>
    </div>
  );
}

function JobFacts({ job }: { job: Job }) {
  const schedule = typeof job.schedule === 'string' ? {} : job.schedule;
  const dst = [schedule.dst?.gap && `gap ${schedule.dst.gap}`, schedule.dst?.fold
    && `fold ${schedule.dst.fold}`].filter(Boolean).join(', ');
  const words = job.words.endsWith(`, ${job.zone}`) ? job.words.slice(0, -job.zone.length - 2) : job.words;
  return (
    <div className={css.facts}>
      <Facts items={[
        ['Schedule', <span key="s">{words.slice(0, 1).toUpperCase() + words.slice(1)} <Code>{scheduleText(job.schedule)}</Code></span>],
        ['Zone', <span key="z">{job.zone} {dst && <span className="dim">{dst}</span>}</span>],
        ['Next due', job.next_due_at ? <When key="n" at={job.next_due_at} zone={job.zone} local={job.next_due_local} ago /> : <span key="n"
          className="dim">{job.state}</span>],
        ['Last 12', <Spark key="l" kinds={(job.recent ?? []).map(kindOf)} size={11} />],
        ['Target', <span key="t" className={css.target}><Tag>{job.target.kind}</Tag>{targetText(job.target)}</span>],
        ['Queue', <Link key="q" to="/queues/$queue" params={{ queue: job.queue ?? 'default' }}>{job.queue ?? 'default'}</Link>],
        job.owner ? ['Owner', job.owner] : null,
        Object.keys(job.labels ?? {}).length > 0
          && ['Labels', <span key="a" className="row wrap">{Object.entries(job.labels ?? {}).sort().map(([k, v]) => (
          <Link key={k} to="/jobs" search={{ label: `${k}=${v}` } as never}><Tag>{k}={v}</Tag></Link>
        ))}</span>],
      ]} />
    </div>
  );
}
