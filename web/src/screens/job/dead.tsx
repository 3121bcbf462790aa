import { Link } from '@tanstack/react-router';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import type { Job } from '../../api/jobs';
import { useSession } from '../../api/session';
import { useAction } from '../../ui/action';
import { Button } from '../../ui/control';
import { Empty, Loaded } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { Ago, When } from '../../ui/when';

type DeadLetter = Schemas['DeadLetter'];

/** The runs of this job that failed permanently and wait for a user. */
export function DeadTab({ job, readOnly }: { job: Job; readOnly: boolean }) {
  const { may } = useSession();
  const list = useData({
    key: ['dead-letters', 'job', job.id],
    get: (signal) => unwrap(api.GET('/api/v1/dead-letters', { params: { query: { job: job.id, page_size: 50 } }, signal })),
    every: 5000,
  });
  const redrive = useAction((run: string) => unwrap(api.POST('/api/v1/dead-letters/{run}:redrive', { params: { path: { run } } })), {
    done: (_, run) => `${run} runs again.`,
  });
  const columns: Column<DeadLetter>[] = [
    { head: 'Due', width: '240px', cell: (d) => <Link to="/runs/$run" params={{ run: d.run }}><When at={d.due_at}
      zone={job.zone} /></Link> },
    { head: 'Failed', width: '110px', from: 'tablet', cell: (d) => <Ago at={d.failed_at} /> },
    { head: 'Reason', width: '120px', cell: (d) => <code>{d.reason}</code> },
    { head: 'Message', from: 'tablet', cell: (d) => <code title={d.message}>{d.message}</code> },
    { head: 'Attempts', width: '80px', right: true, from: 'tablet', cell: (d) => d.attempt },
    {
      head: <span className="sr">Actions</span>, width: '100px', right: true,
      cell: (d) => may('operator') && !readOnly && <Button onClick={() => redrive.mutate(d.run)}
        busy={redrive.isPending && redrive.variables === d.run}>Redrive</Button>,
    },
  ];
  return (
    <Loaded query={list}>
      {({ items, next_page_token }) => items.length === 0
        ? <Empty title="This job has no dead letter">A run that fails permanently appears here until it is redriven or discarded.</Empty>
        : (
          <>
            <Table label="Dead letters" rows={items} id={(d) => d.run} columns={columns} />
            <p><Link to="/dead-letters" search={{ job: job.id } as never}>{next_page_token ? 'All dead letters of this job'
              : 'Act on them together'}</Link></p>
          </>
        )}
    </Loaded>
  );
}
