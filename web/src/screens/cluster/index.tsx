import { Link } from '@tanstack/react-router';
import { api, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import { commands } from '../../lib/commands';
import { count, plural } from '../../lib/number';
import { useUrl } from '../../lib/search';
import { duration } from '../../lib/time';
import { Command, Tag, TextButton } from '../../ui/control';
import { Icon } from '../../ui/icon';
import { Outcome } from '../../ui/mark';
import { Page, Section } from '../../ui/page';
import { Loaded } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { Ago, When } from '../../ui/when';
import { LimitBar } from '../queues/bar';
import { distinct, findings, lag, lateAfter, look, type Broken, type Cluster, type Finding, type Node } from './facts';
import { PartitionGrid, PartitionTable } from './grid';
import css from './cluster.module.css';

/** Which nodes are there, who owns what, and is anything behind? */
export default function ClusterScreen() {
  const cluster = useData<Cluster>({ key: ['cluster'], every: 2000, get: (signal) => unwrap(api.GET('/api/v1/cluster', { signal })) });
  const broken = useData<Broken>({
    key: ['broken'],
    every: 10_000,
    get: (signal) => unwrap(api.GET('/api/v1/schedules:broken', { signal })),
  });
  return (
    <Page title="Cluster" sub={cluster.data && <Summary cluster={cluster.data} />}>
      <Loaded query={cluster} rows={12}>
        {(c) => <Content cluster={c} broken={broken.data} />}
      </Loaded>
    </Page>
  );
}

function Summary({ cluster: c }: { cluster: Cluster }) {
  const slots = c.nodes.reduce((n, x) => n + (x.slots ?? 0), 0);
  const free = c.nodes.reduce((n, x) => n + (x.slots_free ?? 0), 0);
  return (
    <>
      {plural(c.nodes.length, 'node')} ·{' '}
      {c.unowned.length === 0
        ? `all ${c.partitions} partitions have an owner`
        : `${c.unowned.length} of ${c.partitions} partitions without an owner`}
      {slots > 0 && (
        <>
          {' '}
          · {count(free)} of {count(slots)} slots free
        </>
      )}
    </>
  );
}

function Content({ cluster, broken }: { cluster: Cluster; broken: Broken | undefined }) {
  const [url, set] = useUrl();
  const asked = Number(url.partition);
  const chosen = url.partition && Number.isInteger(asked) && asked >= 0 && asked < cluster.owners.length ? asked : 0;
  const index = cluster.nodes.findIndex((n) => n.session === url.node);
  const node = index < 0 ? null : index;
  return (
    <>
      <Findings list={findings(cluster, broken)} />
      <div className={css.columns}>
        <section aria-labelledby="partitions">
          <h2 id="partitions">Partitions by owner</h2>
          <PartitionGrid cluster={cluster} chosen={chosen} choose={(p) => set({ partition: String(p) })} node={node} />
          <PartitionTable cluster={cluster} />
        </section>
        <aside className={css.side} aria-label="Owners and the chosen partition">
          <Chosen cluster={cluster} partition={chosen} />
          <Legend cluster={cluster} node={node} choose={(n) => set({ node: n })} />
        </aside>
        <Database cluster={cluster} />
      </div>
      <Nodes cluster={cluster} />
      {broken && broken.items.length > 0 && <BrokenSchedules broken={broken} />}
    </>
  );
}

function Findings({ list }: { list: Finding[] }) {
  return (
    <div className={css.findings} role="status">
      {list.length === 0 ? (
        <p className={css.fine}>
          <Icon name="check" size={14} /> Nothing needs you here.{' '}
          <span className="dim">More checks of the database and of this machine:</span> <Command>{commands.doctor}</Command>
        </p>
      ) : (
        <ul>
          {list.map((f) => (
            <li key={f.text} data-tone={f.tone}>
              <Icon name="warning" />
              <span className="grow">
                {f.text} {f.link && <a href="#broken">Show them</a>}
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Swatch({ node }: { node: number }) {
  const { shade, pattern } = look(node);
  return <i className={`${css.tile} ${css.swatch}`} data-tint={shade} data-weave={pattern} aria-hidden="true" />;
}

function Chosen({ cluster, partition }: { cluster: Cluster; partition: number }) {
  const o = cluster.owners[partition]!;
  const late = lag(o, Date.parse(cluster.database_time));
  const node = o.node === undefined ? null : cluster.nodes[o.node];
  return (
    <div aria-live="polite">
      <h2>Partition {partition}</h2>
      <dl className={css.facts}>
        <div>
          <dt>Owner</dt>
          <dd>
            {node ? (
              <span className="row">
                <Swatch node={o.node!} />
                {node.name}
              </span>
            ) : (
              <Outcome kind="missed">No owner: its runs wait</Outcome>
            )}
          </dd>
        </div>
        <div>
          <dt>Oldest due</dt>
          <dd>{late > lateAfter ? <Outcome kind="late">{duration(late)} late</Outcome> : late > 0 ? duration(late) : 'none waits'}</dd>
        </div>
        <div>
          <dt>Changes of owner</dt>
          <dd className="num">{count(o.epoch)}</dd>
        </div>
      </dl>
    </div>
  );
}

function Legend({ cluster, node, choose }: { cluster: Cluster; node: number | null; choose: (session: string | undefined) => void }) {
  return (
    <div>
      <h2>Owners</h2>
      <ul className={css.legend}>
        {cluster.nodes.slice(0, 20).map((n, i) => (
          <li key={n.session}>
            <button type="button" aria-pressed={node === i} onClick={() => choose(node === i ? undefined : n.session)}>
              <Swatch node={i} />
              <span className="clip grow">{n.name}</span>
              <span className="num dim">{n.partitions.length}</span>
            </button>
          </li>
        ))}
        <li className={css.key}>
          <i className={`${css.tile} ${css.swatch}`} data-state="unowned" aria-hidden="true" />
          <span className="grow">No owner</span>
          <span className="num dim">{cluster.unowned.length}</span>
        </li>
        <li className={css.key}>
          <i className={`${css.tile} ${css.swatch}`} data-state="late" aria-hidden="true" />
          <span className="grow">Oldest due run waits over 1 s</span>
        </li>
      </ul>
      {cluster.nodes.length > 20 && <p className="dim">{count(cluster.nodes.length - 20)} more nodes in the table.</p>}
      {node !== null && <TextButton onClick={() => choose(undefined)}>Show all owners</TextButton>}
    </div>
  );
}

function Database({ cluster: c }: { cluster: Cluster }) {
  return (
    <div>
      <h2>Database</h2>
      <dl className={css.facts}>
        <div>
          <dt>Clock</dt>
          <dd>
            <When at={c.database_time} seconds utc={false} />
            {c.clock_in_doubt && <Outcome kind="late">in doubt</Outcome>}
          </dd>
        </div>
        <div>
          <dt>PostgreSQL</dt>
          <dd>{c.database.version}</dd>
        </div>
        <div>
          <dt>Schema</dt>
          <dd className="num">{c.schema_version}</dd>
        </div>
        <div>
          <dt>Connections</dt>
          <dd>
            <LimitBar used={c.database.connections} limit={c.database.max_connections} label="Connections" />
          </dd>
        </div>
      </dl>
    </div>
  );
}

function Nodes({ cluster }: { cluster: Cluster }) {
  const mixed = distinct(cluster.nodes.map((n) => n.version)).length > 1;
  const zones = distinct(cluster.nodes.map((n) => n.tzdata)).length > 1;
  const columns: Column<Node>[] = [
    {
      head: 'Node',
      cell: (n, i) => (
        <span className="row">
          <Swatch node={i} />
          <b className="clip" title={n.session}>
            {n.name}
          </b>
          {n.draining && (
            <span className="phone">
              <Tag tone="warn">Draining</Tag>
            </span>
          )}
        </span>
      ),
    },
    { head: 'State', width: '110px', from: 'tablet', cell: (n) => (n.draining ? <Tag tone="warn">Draining</Tag> : <Tag>Active</Tag>) },
    {
      head: 'Version',
      width: '116px',
      cell: (n) => (mixed ? <Tag tone="warn">{n.version || 'unknown'}</Tag> : n.version || <span className="dim">unknown</span>),
    },
    {
      head: 'Slots in use',
      width: '160px',
      from: 'tablet',
      cell: (n) =>
        n.slots === undefined || n.slots_free === undefined ? (
          <span className="dim">not reported</span>
        ) : (
          <LimitBar used={n.slots - n.slots_free} limit={n.slots} label="Slots in use" />
        ),
    },
    { head: 'Partitions', width: '90px', right: true, cell: (n) => n.partitions.length },
    {
      head: 'Session left',
      width: '110px',
      right: true,
      from: 'tablet',
      cell: (n) => duration(Math.max(0, Date.parse(n.expires_at) - Date.parse(cluster.database_time))),
    },
    {
      head: 'Time zone rules',
      width: '130px',
      from: 'desktop',
      cell: (n) => (
        <code className={zones ? 'warn' : 'dim'} title={n.tzdata}>
          {n.tzdata.slice(0, 12) || '–'}
        </code>
      ),
    },
    { head: 'Started', width: '110px', right: true, from: 'desktop', cell: (n) => <Ago at={n.started_at} /> },
  ];
  return (
    <Section title="Nodes" id="nodes" aside={<span className="dim">answered by version {cluster.version}</span>}>
      <Table label="Nodes" rows={cluster.nodes} id={(n) => n.session} columns={columns} />
    </Section>
  );
}

function BrokenSchedules({ broken }: { broken: Broken }) {
  return (
    <Section title="Schedules that cannot be planned" id="broken" aside={broken.partial && <span className="dim">There may be more.</span>}>
      <Table
        label="Broken schedules"
        rows={broken.items}
        id={(b) => JSON.stringify(b.schedule)}
        columns={[
          { head: 'Schedule', cell: (b) => <code>{JSON.stringify(b.schedule)}</code> },
          { head: 'Problem', cell: (b) => <span title={b.problem}>{b.problem}</span> },
          { head: 'Jobs', width: '80px', right: true, cell: (b) => `${count(b.jobs)}${b.more ? '+' : ''}` },
          {
            head: 'Such as',
            from: 'tablet',
            cell: (b) =>
              b.sample.map((j, i) => (
                <span key={j.job}>
                  {i > 0 && ', '}
                  <Link to="/jobs/$job" params={{ job: j.job }}>
                    {j.name}
                  </Link>
                </span>
              )),
          },
          { head: 'Since', width: '110px', right: true, from: 'tablet', cell: (b) => <Ago at={b.since} /> },
        ]}
      />
    </Section>
  );
}
