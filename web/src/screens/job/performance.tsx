import { useElementSize } from '@mantine/hooks';
import { useNavigate } from '@tanstack/react-router';
import { api, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import type { Job, JobStats, Timeline } from '../../api/jobs';
import { count, percent, plural } from '../../lib/number';
import { clock, date, day, duration } from '../../lib/time';
import { word } from '../../ui/mark';
import { Empty, Loaded } from '../../ui/state';
import { Ago, Took, useZone, When } from '../../ui/when';
import { logScale, pointsOf, type Point } from './points';
import css from './job.module.css';

type Props = { job: Job; range: { from: number; to: number }; timeline: Timeline | undefined };

/** How late runs started and how long they took. */
export function Performance({ job, range: whole, timeline }: Props) {
  // Nothing has run in the future.
  const range = { from: whole.from, to: Math.max(whole.from + 60_000, Math.min(whole.to, Date.parse(timeline?.now ?? '') || whole.to)) };
  const from = new Date(whole.from).toISOString();
  const to = new Date(whole.to).toISOString();
  const stats = useData<JobStats>({
    key: ['stats', job.id, from, to],
    get: (signal) => unwrap(api.GET('/api/v1/jobs/{job}/stats', { params: { path: { job: job.id }, query: { from, to } }, signal })),
    keep: true,
  });
  // A timeline of buckets has no single runs: the newest 500 of the range stand for them.
  const many = !!timeline?.buckets?.length;
  const runs = useData({
    key: ['runs-of', job.id, from, to],
    get: (signal) => unwrap(api.GET('/api/v1/jobs/{job}/runs',
      { params: { path: { job: job.id }, query: { due_from: from, due_to: to, page_size: 500 } }, signal })),
    enabled: many, keep: true,
  });
  const points = pointsOf(many ? runs.data?.items ?? [] : timeline?.items ?? []);
  return (
    <>
      <Loaded query={stats} rows={2}>{(s) => <Numbers stats={s} />}</Loaded>
      {many && <p className={css.note}>{runs.data?.next_page_token ? 'The newest 500 runs of this time are drawn.'
        : 'All runs of this time are drawn.'}</p>}
      {points.length === 0 ? <Empty title="No run started in this time" /> : (
        <>
          <Chart title="Started after the due time" points={points} value={(p) => p.late} range={range} zone={job.zone} />
          <Chart title="Duration" points={points} value={(p) => p.took} range={range} zone={job.zone} />
          <Twin points={points} zone={job.zone} />
        </>
      )}
    </>
  );
}

const separator = <span className="dim">·</span>;

function Numbers({ stats }: { stats: JobStats }) {
  const s = stats;
  return (
    <dl className={css.stats}>
      <div><dt>Runs</dt><dd>{count(s.runs)}{s.partial && '+'}</dd></div>
      <div><dt>Succeeded</dt><dd>{s.success_rate === null ? '–' : percent(s.success_rate)}</dd></div>
      <div><dt>Failed</dt><dd className={s.failed > 0 ? 'bad' : ''}>{count(s.failed)}</dd></div>
      {s.skipped + s.missed > 0 && (
        <div>
          <dt>Skipped, missed</dt>
          <dd>{count(s.skipped)} {separator} <span className={s.missed > 0 ? 'warn' : ''}>{count(s.missed)}</span></dd>
        </div>
      )}
      <div><dt>Started after, median and 95 %</dt><dd><Took ms={s.lateness_ms.p50} /> {separator} <Took ms={s.lateness_ms.p95} /></dd></div>
      <div><dt>Duration, median and 95 %</dt><dd><Took ms={s.duration_ms.p50} /> {separator} <Took ms={s.duration_ms.p95} /></dd></div>
      {s.streak && s.streak.count > 0 && <div><dt>In a row</dt><dd>{count(s.streak.count)} {s.streak.state}</dd></div>}
      {s.last_failure_at && <div><dt>Last failure</dt><dd><Ago at={s.last_failure_at} /></dd></div>}
      {s.partial && <div><dt>Counted</dt><dd><When at={s.from} utc={false} /> to <When at={s.to} utc={false} /></dd></div>}
    </dl>
  );
}

const height = 120;
const left = 56;
const dot: Record<string, string> = { failed: 'var(--bad-mark)', retried: 'var(--ok-mark)', succeeded: 'var(--ok-mark)' };

function Chart({ title, points, value, range, zone: jobZone }: {
  title: string; points: Point[]; value: (p: Point) => number | undefined; range: Props['range']; zone: string;
}) {
  const navigate = useNavigate();
  const zone = useZone(jobZone);
  const { ref, width } = useElementSize<HTMLDivElement>();
  const shown = points.filter((p) => value(p) !== undefined);
  const { y, ticks } = logScale(shown.map((p) => value(p)!), height);
  const x = (at: number) => left + ((at - range.from) / (range.to - range.from)) * Math.max(width - left - 8, 1);
  const parts = Math.max(1, Math.floor(width / 160));
  const marks = Array.from({ length: parts + 1 }, (_, i) => range.from + ((range.to - range.from) * i) / parts);
  const label = (at: number) => (range.to - range.from > 2 * day ? date(at, zone) : clock(at, zone));
  return (
    <figure>
      <figcaption className={css.chartTitle}><h3>{title}</h3><span className="dim">logarithmic</span></figcaption>
      <div ref={ref}>
        <svg className={css.chart} height={height + 28} role="img"
          aria-label={`${title} of ${plural(shown.length, 'run')}; the table below has the numbers`}>
          {ticks.map((t) => (
            <g key={t} transform={`translate(0 ${y(t) + 4})`}>
              <line x1={left} x2={Math.max(width, left)} /><text x={left - 8} y={4} textAnchor="end">{duration(t)}</text>
            </g>
          ))}
          {marks.map((at, i) => (
            <text key={at} x={x(at)} y={height + 24}
              textAnchor={i === 0 ? 'start' : i === marks.length - 1 ? 'end' : 'middle'}>{label(at)}</text>
          ))}
          {width > 0 && shown.map((p, i) => p.kind === 'failed'
            ? <path key={i} d={`M${x(p.at) - 3} ${y(value(p)!) + 1}l6 6m0-6l-6 6`} stroke="var(--bad-mark)" strokeWidth="1.6"
              onClick={() => p.run && void navigate({ to: '/runs/$run', params: { run: p.run } })} />
            : <circle key={i} cx={x(p.at)} cy={y(value(p)!) + 4} r="2.6" fill={dot[p.kind] ?? 'var(--accent)'} fillOpacity=".75" />)}
        </svg>
      </div>
    </figure>
  );
}

function Twin({ points, zone }: { points: Point[]; zone: string }) {
  return (
    <details className={css.note}>
      <summary>Show as table</summary>
      <table className={css.versionList}>
        <caption className="sr">Lateness and duration of each run</caption>
        <thead><tr><th>Due</th><th>Outcome</th><th className="right">Started after</th><th className="right">Took</th></tr></thead>
        <tbody>
          {points.toReversed().map((p, i) => (
            <tr key={i}>
              <td><When at={p.at} zone={zone} seconds /></td><td>{word[p.kind]}</td>
              <td className="right"><Took ms={p.late} /></td><td className="right"><Took ms={p.took} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

