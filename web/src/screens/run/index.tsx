import { Link, useParams } from '@tanstack/react-router';
import { api, text, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { commands } from '../../lib/commands';
import { parseExact, type Exact } from '../../lib/json';
import { count } from '../../lib/number';
import { Command, Copy, Tag } from '../../ui/control';
import { kindOf, Mark, Outcome, word } from '../../ui/mark';
import { Page, Section, Sideways } from '../../ui/page';
import { Loaded, ProblemView, Skeleton } from '../../ui/state';
import { Ago, When } from '../../ui/when';
import { kindOfStory } from '../job/why';
import { isLive, RunActions } from './actions';
import { Attempts } from './attempts';
import { OutputView } from './output';
import { Trace } from './trace';
import { JSONView } from './value';
import css from './run.module.css';

type Run = Schemas['RunDetail'];
type Story = Schemas['Story'];
type Answer = { run: Run; payload: Exact | undefined; result: Exact | undefined };

/** The run, with its payload and result as they are stored: JSON.parse would round large numbers. */
async function read(id: string, signal: AbortSignal): Promise<Answer> {
  const body = await text(`/api/v1/runs/${encodeURIComponent(id)}`, signal);
  const exact = parseExact(body) as { payload?: Exact; result?: Exact };
  return { run: JSON.parse(body) as Run, payload: exact.payload, result: exact.result };
}

/** What happened in this run, attempt by attempt? */
export default function RunScreen() {
  const { run: id } = useParams({ strict: false }) as { run: string };
  const query = useData({ key: ['run', id], get: (signal) => read(id, signal), every: 2000 });
  if (!query.data) {
    const crumbs = [{ label: 'Runs', link: { to: '/runs' } }];
    return <Page title="Run" crumbs={crumbs}>{query.error ? <ProblemView error={query.error} retry={() => void query.refetch()} />
      : <Skeleton />}</Page>;
  }
  return (
    <>
      {query.error && <ProblemView error={query.error} retry={() => void query.refetch()} quiet />}
      <RunPage {...query.data} />
    </>
  );
}

function RunPage({ run, payload, result }: Answer) {
  const why = useData({
    key: ['why-run', run.id, run.state, run.attempt],
    get: (signal) => unwrap(api.GET('/api/v1/runs/{run}/why', { params: { path: { run: run.id } }, signal })),
    ...(isLive(run.state) ? { every: 5000 } : {}),
    keep: true,
  });
  const story = why.data?.items[0];
  const name = run.job_name ?? 'Deleted job';
  const kind = kindOf(run);
  return (
    <Page name={`${name}, run`} title={<>{name}<span className={css.due}>, {story?.local ?? <When at={run.due_at}
      utc={false} seconds />}</span></>}
      crumbs={[{ label: 'Jobs', link: { to: '/jobs' } }, { label: name, link: { to: '/jobs/$job', params: { job: run.job } } as never }]}
      sub={<span className={css.sub}><Outcome kind={kind} />{run.dead_letter
        && <Tag tone="bad">dead letter</Tag>}{run.origin !== 'schedule' && <Tag>{run.origin}</Tag>}</span>}
      actions={<RunActions run={run} />}>
      <p className={css.id}>
        <code>{run.id}</code><Copy text={run.id} label="Copy the id" /><span className="dim">due <When at={run.due_at} ago seconds /></span>
      </p>
      <Loaded query={why} rows={3}>{({ items }) => <Why stories={items} run={run} />}</Loaded>
      {run.state === 'running' && run.percent !== undefined && (
        <div className={css.progress}>
          <progress max={100} value={run.percent} aria-label="Progress" /><span className="num">{run.percent} %</span> {run.progress}
        </div>
      )}
      <Attempts run={run} zone={undefined} />
      <OutputView run={run} />
      <div className={css.columns}>
        <div>
          {payload === undefined ? (
            <Section title="Payload" id="payload">
              <p className="dim">None.</p>
            </Section>
          ) : <JSONView title="Payload" id="payload" note={`as stored, version ${run.version}`} value={payload} />}
          {result !== undefined && <JSONView title="Result" id="result" note="as the worker reported it" value={result} />}
        </div>
        <Facts run={run} />
      </div>
      {(run.earlier?.length ?? 0) > 0 && <Earlier runs={run.earlier!} />}
    </Page>
  );
}

function Why({ stories, run }: { stories: Story[]; run: Run }) {
  return (
    <div className={css.why} data-kind={kindOf(run)}>
      {stories.map((s, i) => (
        <div key={i}>
          <p className={css.code}><Mark kind={kindOfStory(s)} size={14}
            label="" /><code>{s.code.replaceAll('_', ' ')}{s.reason && `: ${s.reason}`}</code></p>
          <p className={css.said}>{s.text}</p>
          {s.next && <p className="dim">{s.next}</p>}
        </div>
      ))}
    </div>
  );
}

const at = (time: string) => <When at={time} seconds />;

function Facts({ run }: { run: Run }) {
  const key = run.idempotency_key ?? run.id;
  const rows: ([string, React.ReactNode] | false | undefined)[] = [
    ['Job', <Link key="j" to="/jobs/$job" params={{ job: run.job }}>{run.job_name ?? run.job}</Link>],
    ['Occurrence', <Link key="o" to="/jobs/$job/at/$time" params={{ job: run.job, time: run.due_at }}>{at(run.due_at)}</Link>],
    run.last_due_at ? ['Until', <span key="u">{at(run.last_due_at)}{run.count && `, ${count(run.count)} occurrences`}</span>] : undefined,
    ['May start', <When key="m" at={run.run_at} seconds />],
    ['Idempotency key', <span key="k" className={css.key}><code>{key}</code><Copy text={key} label="Copy the idempotency key" /></span>],
    ['Version', <Link key="v" to="/jobs/$job" params={{ job: run.job }}
      search={{ tab: 'versions', b: String(run.version) } as never}>{run.version}</Link>],
    ['Queue', <Link key="q" to="/queues/$queue" params={{ queue: run.queue }}>{run.queue}</Link>],
    ['Origin', run.origin],
    run.handler ? ['Handler', <code key="h">{run.handler}</code>] : undefined,
    run.worker || run.node ? ['Where', <span key="w" title={run.session}>{run.worker ?? run.node}</span>] : undefined,
    run.status ? ['Status', run.status] : undefined,
    run.ended_at ? ['Ended', <When key="e" at={run.ended_at} seconds ago />] : undefined,
    run.trace_id ? ['Trace', <Trace key="t" id={run.trace_id} url={run.trace_url} />] : undefined,
  ];
  return (
    <Section title="Request" id="request">
      <dl className={css.facts}>
        {rows.filter((x): x is [string, React.ReactNode] => !!x).map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}
      </dl>
      <Command>{commands.whyRun(run.id)}</Command>
    </Section>
  );
}

function Earlier({ runs }: { runs: Schemas['Run'][] }) {
  return (
    <Section title="Earlier ends" id="earlier">
      <p className="dim">How this run ended before it was run again, newest first.</p>
      <Sideways label="Earlier ends">
        <table className={css.earlier}>
          <caption className="sr">Earlier ends</caption>
          <thead><tr><th>Ended</th><th>Outcome</th><th className="right">Attempts</th><th>Message</th></tr></thead>
          <tbody>
            {runs.map((r, i) => (
              <tr key={i}>
                <td>{r.ended_at ? <Ago at={r.ended_at} /> : '–'}</td>
                <td><Outcome kind={kindOf(r)}>{word[kindOf(r)]}{r.reason && `: ${r.reason}`}</Outcome></td>
                <td className="right num">{r.attempt}</td><td><code>{r.message}</code></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Sideways>
    </Section>
  );
}
