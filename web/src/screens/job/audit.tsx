import { Link } from '@tanstack/react-router';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import type { Job } from '../../api/jobs';
import { actorName } from '../../lib/actor';
import { Empty, Loaded } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { When } from '../../ui/when';

type Entry = Schemas['AuditEntry'];
type Entries = Schemas['AuditEntryList'];

/** Who changed this job. Admins only. */
export function AuditTab({ job }: { job: Job }) {
  const list = useData<Entries>({
    key: ['audit', job.id],
    get: (signal) => unwrap(api.GET('/api/v1/audit', { params: { query: { object: job.id, page_size: 50 } }, signal })),
  });
  const columns: Column<Entry>[] = [
    { head: 'When', width: '260px', cell: (e) => <When at={e.at} zone={job.zone} seconds /> },
    { head: 'Action', width: '160px', cell: (e) => <code>{e.action}</code> },
    { head: 'By', width: '260px', cell: (e) => <span title={e.actor}>{actorName(e.actor)}</span> },
    { head: 'Detail', from: 'tablet', cell: (e) => <code className="dim">{JSON.stringify(e.detail)}</code> },
  ];
  return (
    <Loaded query={list}>
      {({ items }) => items.length === 0 ? <Empty title="No entry about this job" /> : (
        <>
          <Table label="Audit log of the job" rows={items} id={(e) => String(e.seq)} columns={columns} />
          <p><Link to="/audit" search={{ object: job.id } as never}>In the audit log</Link></p>
        </>
      )}
    </Loaded>
  );
}
