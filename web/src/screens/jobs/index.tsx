import { Menu } from '@mantine/core';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, unwrap } from '../../api/client';
import { usePages } from '../../api/pages';
import type { Job } from '../../api/jobs';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { useUrl } from '../../lib/search';
import { BulkBar, type Bulk, type BulkScope } from '../../ui/bulk';
import { Button, LinkButton, TextButton } from '../../ui/control';
import { filtered, FilterBar } from '../../ui/filter';
import { Icon } from '../../ui/icon';
import { Endless, NewerPill } from '../../ui/list';
import { Page } from '../../ui/page';
import { useSelection } from '../../ui/selection';
import { Empty, ProblemView, Skeleton } from '../../ui/state';
import { Table } from '../../ui/table';
import { now } from '../../lib/time';
import { useJobDialogs, type JobAct } from '../job/dialogs';
import { columns } from './columns';
import { dueFields, otherFields } from './fields';
import { bulkBlocked, bulkFilter, byDue, filterKeys, jobsQuery, offered } from './filter';
import css from './jobs.module.css';

const noun: [string, string] = ['job', 'jobs'];
const size = 50;

const pause: Bulk = {
  path: '/api/v1/jobs:pause', verb: 'Pause', icon: 'pause', noun,
  explain: 'No occurrence of these jobs starts while they are paused. Runs that have started continue.',
};
const resume: Bulk = {
  path: '/api/v1/jobs:resume', verb: 'Resume', icon: 'redo', noun,
  explain: 'Each job decides by missed.paused about the occurrences that passed while it was paused.',
};
const trigger: Bulk = {
  path: '/api/v1/jobs:trigger', verb: 'Trigger', icon: 'play', noun,
  explain: 'Each job gets one run besides its schedule, at the rate below.',
};
const remove: Bulk = {
  path: '/api/v1/jobs:delete', verb: 'Delete', icon: 'trash', noun, danger: true,
  explain: 'Runs that have not started are withdrawn, and those that have started finish. The history stays until it expires.',
};

export default function Jobs() {
  const [url] = useUrl();
  const navigate = useNavigate();
  const { may } = useSession();
  const [bulkOpen, setBulkOpen] = useState(false);
  const dialogs = useJobDialogs((act) => act === 'delete' && list.refresh());
  const key = ['jobs', url.order === 'due' ? 'due' : '', ...filterKeys.map((k) => url[k] ?? '')];
  const selection = useSelection<Job>((j) => j.id, key.join('\n'));
  const list = usePages<Job>({
    key, id: (j) => j.id, size, hold: selection.size > 0 || dialogs.open || bulkOpen,
    get: (token, signal) => {
      const query = { ...jobsQuery(url, now()), include: 'recent' as const, page_size: size, ...(token ? { page_token: token } : {}) };
      return unwrap(api.GET('/api/v1/jobs', { params: { query }, ...(signal ? { signal } : {}) }));
    },
  });
  const open = (job: Job) => void navigate({ to: '/jobs/$job', params: { job: job.id } });
  const edit = (job: Job) => void navigate({ to: '/jobs/$job/edit', params: { job: job.id } });
  const show = (act: JobAct) => (job: Job) => dialogs.show(act, job);
  const toggle = (job: Job) => dialogs.show(job.state === 'paused' ? 'resume' : 'pause', job);
  const keys = { ...(may('operator') ? { t: show('trigger'), p: toggle } : {}), ...(may('editor') ? { e: edit } : {}) };
  const anyFilter = filtered(url, filterKeys);
  const { due, other } = offered(url);
  const shortPage = !!list.last && list.last.items.length < size;

  const scope = (all: boolean): BulkScope => {
    if (!all) return { body: { ids: selection.ids() }, words: [['Jobs', `${selection.size} selected`]] };
    return bulkFilter(url);
  };
  return (
    <Page title="Jobs" actions={may('editor') && (
      <>
        <LinkButton to="/import" icon="import">Import</LinkButton>
        <LinkButton to="/jobs/new" tone="primary" icon="plus">New job</LinkButton>
      </>
    )}>
      <FilterBar {...(other ? { search: { key: 'name', placeholder: 'Name contains…' } } : {})}
        fields={[...(other ? otherFields : []), ...(due ? dueFields : [])]} aside={<Order />} />
      {selection.size > 0 && may('operator') && (
        <BulkBar noun={noun} selected={selection.size} all={selection.all} setAll={selection.setAll} clear={selection.clear} scope={scope}
          onOpen={setBulkOpen}
          allBlocked={bulkBlocked(url)}
          bulks={[trigger, pause]} rest={may('editor') ? [resume, remove] : [resume]} />
      )}
      <NewerPill newer={list.newer} refresh={list.refresh} noun={noun} />
      {list.first.error && <ProblemView error={list.first.error} retry={() => void list.first.refetch()} quiet={list.rows.length > 0} />}
      {list.first.data === undefined ? !list.first.error && <Skeleton rows={14} /> : list.rows.length === 0 && !list.more ? (
        anyFilter ? <Empty title="No job matches these filters" action={<ClearFilters />} /> : (
          <Empty title="There is no job yet" command={commands.firstJob}
            action={may('editor') ? <LinkButton to="/jobs/new" tone="primary" icon="plus">Create the first job</LinkButton> : undefined}>
            A job says what runs, when, and where. Create it here, with the command below, or import a file or a crontab.
          </Empty>
        )
      ) : (
        <div className={list.stale || list.first.error ? 'stale' : undefined}>
          {list.rows.length > 0 && (
            <Table label="Jobs" virtual phoneRow={76} rows={list.rows} id={(j) => j.id} name={(j) => j.name} columns={columns} open={open}
              keys={keys}
              {...(may('operator') ? { selection: selection.of(list.rows) } : {})}
                rowClass={(j) => (j.state === 'active' ? undefined : css.off)}
              actions={may('operator') ? (job) => <Actions job={job} show={dialogs.show} toggle={toggle} edit={edit} /> : undefined}
              {...(shortPage ? {} : { onEnd: list.loadMore })} />
          )}
          <Endless list={list} short={shortPage} noun={noun} />
        </div>
      )}
      {dialogs.dialog}
    </Page>
  );
}

type ActionsProps = { job: Job; show: (act: JobAct, job: Job) => void; toggle: (job: Job) => void; edit: (job: Job) => void };

function Actions({ job, show, toggle, edit }: ActionsProps) {
  const { may } = useSession();
  const paused = job.state === 'paused';
  return (
    <>
      <Button tone="quiet" iconOnly icon="play" onClick={() => show('trigger', job)}>{`Trigger ${job.name}`}</Button>
      <Button tone="quiet" iconOnly icon={paused ? 'redo' : 'pause'}
        blocked={job.state === 'finished' ? 'The job has no occurrence left' : undefined}
        onClick={() => toggle(job)}>{`${paused ? 'Resume' : 'Pause'} ${job.name}`}</Button>
      <Menu position="bottom-end" width={160}>
        <Menu.Target><Button tone="quiet" iconOnly icon="more">{`More actions for ${job.name}`}</Button></Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<Icon name="redo" size={14} />} onClick={() => show('backfill', job)}>Backfill…</Menu.Item>
          {may('editor') && <Menu.Item leftSection={<Icon name="edit" size={14} />} onClick={() => edit(job)}>Edit</Menu.Item>}
          {may('editor') && <Menu.Item color="var(--bad)" leftSection={<Icon name="trash" size={14} />}
            onClick={() => show('delete', job)}>Delete…</Menu.Item>}
        </Menu.Dropdown>
      </Menu>
    </>
  );
}

/** By creation or by due time: what the API can do at any size. */
function Order() {
  const [url, set] = useUrl();
  const due = byDue(url);
  const forced = !offered(url).due ? 'Remove the filters to order by due time'
    : url.due || url.due_from || url.due_to ? 'A filter by due time orders by due time' : undefined;
  return (
    <span className={css.order}>
      Ordered by{' '}
      <Menu position="bottom-end" width={200} disabled={!!forced}>
        <Menu.Target>
          <TextButton title={forced}>{due ? 'next due time' : 'creation'}{!forced
            && <Icon name="down" size={12} />}</TextButton>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => set({ order: undefined })}>Creation</Menu.Item>
          <Menu.Item onClick={() => set({ order: 'due' })}>Next due time <span className="dim">(active jobs)</span></Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </span>
  );
}

function ClearFilters() {
  return <Link to="/jobs">Clear the filters</Link>;
}
