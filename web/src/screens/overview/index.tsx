import { Link } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import type { Schemas } from '../../api/client';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { useOverview } from '../../frame/frame';
import { capped, count, plural } from '../../lib/number';
import { clock, duration, now } from '../../lib/time';
import { Code, Command, Count, LinkButton } from '../../ui/control';
import { Icon } from '../../ui/icon';
import { kindOf, Mark, Spark, type Kind } from '../../ui/mark';
import { Section, usePageTitle } from '../../ui/page';
import { Loaded } from '../../ui/state';
import { useNow } from '../../ui/when';
import { LastHour, noticed, skippedRuns } from './chart';
import css from './overview.module.css';

type Overview = Schemas['Overview'];

/** Is everything on time, and if not, why? */
export default function OverviewScreen() {
  const overview = useOverview();
  usePageTitle('Overview');
  return (
    <div className={css.page}>
      <Loaded query={overview}>{(o) => (isNew(o) ? <First /> : <Content o={o} />)}</Loaded>
    </div>
  );
}

/** A namespace that has no job and had none in the last hour. */
const isNew = (o: Overview) =>
  !o.has_jobs && o.dead_letters.count === 0 && o.attention.length === 0 && Object.values(o.ended_1h).every((n) => n === 0);

function Content({ o }: { o: Overview }) {
  return (
    <>
      <header className={css.verdict}>
        <div>
          <Verdict o={o} />
          <Missed o={o} />
        </div>
        <Ledger o={o} />
      </header>
      <Numbers o={o} />
      <div className={css.columns}>
        <div>
          <LastHour minutes={o.minutes} />
          {o.failing.length > 0 && <Failing o={o} />}
        </div>
        <Attention o={o} />
      </div>
    </>
  );
}

/** The age of the oldest late run, which grows between two reads. */
function Verdict({ o }: { o: Overview }) {
  const current = useNow();
  // The browser's clock may be wrong, so it only measures how long ago the answer came.
  const seen = useMemo(() => now(), [o.now]);
  const { p50_ms: p50, p99_ms: p99 } = o.lateness_5m;
  if (o.late.runs > 0) {
    const behind = o.late.oldest_due_at ? Date.parse(o.now) - Date.parse(o.late.oldest_due_at) + Math.max(current - seen, 0) : 0;
    return (
      <div className={css.verdictText}>
        <span className={`${css.sign} ${css.signLate}`}>
          <Mark kind="late" size={16} label="" />
        </span>
        <div>
          <h1>
            <Link to="/runs" search={{ state: 'due' } as never}>
              {capped(o.late.runs, o.late.more)} {o.late.runs === 1 ? 'run is' : 'runs are'} late
            </Link>
          </h1>
          <p>
            The oldest was due <b className="num">{duration(Math.floor(behind / 1000) * 1000)}</b> ago and has not started.
          </p>
        </div>
      </div>
    );
  }
  if (o.late.more) {
    return (
      <div className={css.verdictText}>
        <span className={`${css.sign} ${css.signLate}`}>
          <Mark kind="late" size={16} label="" />
        </span>
        <div>
          <h1>Not known whether runs are late</h1>
          <p>There are too many live runs to read all of them. None of those that were read is late.</p>
        </div>
      </div>
    );
  }
  return (
    <div className={css.verdictText}>
      <span className={css.sign}>
        <Icon name="check" size={18} />
      </span>
      <div>
        <h1>Everything is on time</h1>
        <p>
          No run is late.{' '}
          {p50 !== undefined && p99 !== undefined && (
            <>
              Runs started <b className="num">{duration(p50)}</b> after their due time at the median,{' '}
              <b className="num">{duration(p99)}</b>{' '}
              at p99, over the last 5 minutes.
            </>
          )}
        </p>
      </div>
    </div>
  );
}

/** Occurrences that no node was there for. They are over, and the verdict of now does not have them. */
function Missed({ o }: { o: Overview }) {
  const { missed } = o.ended_1h;
  if (missed === 0) return null;
  return (
    <p className={css.missed}>
      <Mark kind="missed" label="" />
      <span>
        <b className="num">
          {o.skipped_1h_more && 'At least '}
          {plural(missed, 'occurrence was', 'occurrences were')} missed
        </b>{' '}
        in the last hour, when no node served them. {noticed(o.minutes)} The timeline of{' '}
        <Link to="/jobs">each job</Link> shows which, and backfills them.
      </span>
    </p>
  );
}

function Ledger({ o }: { o: Overview }) {
  if (!o.audit.until)
    return (
      <div className={css.ledger}>
        <span className="dim">Ledger: not checked yet</span>
      </div>
    );
  return (
    <div className={css.ledger}>
      <span className="dim">Ledger</span>{' '}
      {o.audit.missing > 0 ? (
        <b className="bad">
          {capped(o.audit.missing, o.audit.more)} {o.audit.missing === 1 ? 'occurrence' : 'occurrences'} missing
        </b>
      ) : (
        <b className="ok">
          <Icon name="check" size={12} /> 0 occurrences missing
        </b>
      )}
      <div className="dim">
        {plural(o.audit.checked, 'occurrence')} checked, until {clock(Date.parse(o.audit.until), 'UTC', true)} UTC
      </div>
    </div>
  );
}

function Numbers({ o }: { o: Overview }) {
  const more = o.ended_1h_incomplete ? '+' : ''; // a node was killed, and what it counted last is missing
  const items: [string, string, string, Record<string, string>, boolean?][] = [
    ['Due, next 5 min', (o.due_next_5m_exact ? '' : '≈ ') + count(o.due_next_5m), '/jobs', { order: 'due' }],
    ['Running', capped(o.running, o.late.more), '/runs', { state: 'running' }],
    ['Waiting', capped(o.accepted + o.retrying, o.late.more), '/runs', { state: 'accepted,retrying' }],
    ['Failed, 1 h', count(o.ended_1h.failed) + more, '/runs', { state: 'failed', within: '1h' }, o.ended_1h.failed > 0],
    ['Missed, 1 h', capped(o.ended_1h.missed, o.skipped_1h_more), '/runs', skippedRuns(o.skipped_1h, true), o.ended_1h.missed > 0],
    ['Skipped, 1 h', capped(o.ended_1h.skipped, o.skipped_1h_more), '/runs', skippedRuns(o.skipped_1h, false)],
    ['Dead letters', capped(o.dead_letters.count, o.dead_letters.more), '/dead-letters', {}, o.dead_letters.count > 0],
  ];
  return (
    <dl className={css.strip}>
      {items.map(([name, value, to, search, bad]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className={bad ? 'bad' : undefined}>
            <Link to={to} search={search as never}>
              {value}
            </Link>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Failing({ o }: { o: Overview }) {
  return (
    <Section
      title="Failing most, last hour"
      aside={
        <Link to="/runs" search={{ state: 'failed', within: '1h' } as never}>
          All failed runs
        </Link>
      }
    >
      <table className={css.failing}>
        <thead>
          <tr>
            <th>Job</th>
            <th>Last 12</th>
            <th className="right">Failed</th>
            <th>Last message</th>
          </tr>
        </thead>
        <tbody>
          {o.failing.map((f) => (
            <tr key={f.job}>
              <td>
                <Link to="/jobs/$job" params={{ job: f.job }}>
                  <b>{f.job_name ?? 'Deleted job'}</b>
                </Link>
              </td>
              <td>
                <Spark kinds={f.recent.map((r) => kindOf(r))} />
              </td>
              <td className="right num">
                <Link to="/runs" search={{ state: 'failed', within: '1h', job: f.job } as never}>
                  {capped(f.failed_1h, o.failing_more)}
                </Link>
              </td>
              <td className="clip">{f.message ? <code className="dim">{f.message}</code> : <span className="dim">–</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

const attentionMark: Record<string, Kind> = {
  clock_in_doubt: 'clock',
  partitions_unowned: 'missed',
  audit_findings: 'missed',
  no_worker: 'late',
  queue_paused: 'paused',
  dead_letters: 'failed',
  schedules_broken: 'missed',
  host_resting: 'late',
  jobs_paused: 'paused',
};

/** Where each is looked into. A code that is not here, such as of a newer node, has only its text. */
const attentionLink = (a: { code: string; queue?: string; cause?: string }): [text: string, to: string, search?: object] | undefined => {
  if (a.queue) return ['Open queue', `/queues/${encodeURIComponent(a.queue)}`];
  if (a.cause) return ['Review and redrive', '/dead-letters', { cause: a.cause }];
  if (a.code === 'host_resting') return ['See the runs that wait', '/runs', { state: 'due' }];
  if (a.code === 'jobs_paused') return ['See the paused jobs', '/jobs', { state: 'paused' }];
  return /^(partitions|clock|audit|schedules)/.test(a.code) ? ['Open cluster', '/cluster'] : undefined;
};

function Attention({ o }: { o: Overview }) {
  const link = (a: Overview['attention'][number]): ReactNode => {
    const [text, to, search] = attentionLink(a) ?? [];
    return text && (
      <Link to={to} search={(search ?? {}) as never}>
        {text}
        <Icon name="right" size={12} />
      </Link>
    );
  };
  const paused = o.paused.jobs > 0 && !o.attention.some((a) => (a.code as string) === 'jobs_paused');
  return (
    <Section
      title={
        <>
          Needs attention <Count>{o.attention.length}</Count>
        </>
      }
    >
      {o.attention.length === 0 && <p className={css.calm}>Nothing needs your attention.</p>}
      <ul className={css.attention}>
        {o.attention.map((a) => (
          <li key={`${a.code} ${a.queue ?? ''} ${a.cause ?? ''}`}>
            <Mark kind={attentionMark[a.code] ?? 'late'} label="" />
            <div>
              <p>{a.text}</p>
              {link(a)}
            </div>
          </li>
        ))}
        {paused && (
          <li>
            <Mark kind="paused" label="" />
            <div>
              <p>
                {o.paused.jobs === 1 && !o.paused.more ? '1 job is' : `${capped(o.paused.jobs, o.paused.more)} jobs are`} paused, by users
                or by Belfry.
              </p>
              {link({ code: 'jobs_paused', text: '', count: o.paused.jobs } as never)}
            </div>
          </li>
        )}
      </ul>
    </Section>
  );
}

/** The first job in three ways. */
function First() {
  const session = useSession();
  return (
    <div className={css.first}>
      <span className={css.logo}>
        <Icon name="bell" size={24} />
      </span>
      <h1>Nothing is scheduled yet</h1>
      <p>A job is a schedule, a target and policies. Create the first one in one of three ways.</p>
      <div className={css.ways}>
        <section>
          <h2>In the browser</h2>
          <p>Choose when and where, and see the next runs before you save.</p>
          {session.may('editor') ? (
            <LinkButton to="/jobs/new" tone="primary" icon="plus">
              New job
            </LinkButton>
          ) : (
            <p className="dim">This needs the role editor.</p>
          )}
        </section>
        <section>
          <h2>On the command line</h2>
          <p>One line, in any shell:</p>
          <Command>{commands.createJob}</Command>
        </section>
        <section>
          <h2>From a file</h2>
          <p>
            Drop YAML, JSON or a <Code>crontab</Code>, and see what would change.
          </p>
          {session.may('editor') && (
            <LinkButton to="/import" icon="import">
              Import a file
            </LinkButton>
          )}
        </section>
      </div>
    </div>
  );
}
