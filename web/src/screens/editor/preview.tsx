import { useEffect, useState, type ReactNode } from 'react';
import { ApiProblem, send, snapshot, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { changes, scheduleOf, type Definition } from '../../lib/definition';
import { compactExact } from '../../lib/json';
import { count } from '../../lib/number';
import { clock, date, duration, localParts, minute, now, relative, weekday } from '../../lib/time';
import { TextButton } from '../../ui/control';
import type { Issue } from '../../ui/input';
import { Mark } from '../../ui/mark';
import { ProblemView, Skeleton } from '../../ui/state';
import { useNow } from '../../ui/when';
import css from './preview.module.css';

type Preview = Schemas['Preview'];
type Line = Schemas['PreviewLine'];

/** A value that changes only after some quiet time. */
export function useDebounced<T>(value: T, ms: number): T {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const t = setTimeout(() => setLate(value), ms);
    return () => clearTimeout(t);
  }, [value, ms]);
  return late;
}

const ask = async (body: string, signal: AbortSignal): Promise<Preview> =>
  JSON.parse(await send('POST', '/api/v1/jobs:preview', body, {}, signal)) as Preview;

const problemsOf = (e: unknown): Issue[] | undefined =>
  e instanceof ApiProblem && e.status === 422 ? e.problems.map((p) => ({ ...p, field: p.field.replace(/^job\./, '') })) : undefined;

export type Answer = { preview?: Preview; issues: Issue[] };

/** What the server says of a job, or of its schedule alone while the rest is not valid yet. */
async function answer(def: Definition, signal: AbortSignal): Promise<Answer> {
  if (scheduleOf(def.schedule).expression === '') return { issues: [] }; // there is nothing to ask about yet
  try {
    return { preview: await ask(`{"job":${compactExact(def)},"count":10}`, signal), issues: [] };
  } catch (e) {
    const issues = problemsOf(e);
    if (!issues) throw e;
    if (def.schedule === undefined || issues.some((p) => p.field.startsWith('schedule'))) return { issues };
    try {
      return { preview: await ask(`{"schedule":${compactExact(def.schedule)},"count":10}`, signal), issues };
    } catch (inner) {
      const more = problemsOf(inner);
      if (!more) throw inner;
      return { issues: [...issues, ...more] };
    }
  }
}

/** The preview of a definition while the user types: 250 ms after the last change. An older request is aborted. */
export function usePreview(def: Definition) {
  const text = compactExact(def);
  const late = useDebounced(text, 250);
  const q = useData({ key: ['preview', late], get: (signal) => answer(def, signal), keep: true, every: 30_000 });
  return { query: q, settled: late === text && !q.isFetching };
}

const localDay = (local: string) => {
  const at = Date.parse(localParts(local).date + 'T00:00:00Z');
  return `${weekday(at)} ${date(at)}`;
};

/** The year, where it is not this one. */
const yearOf = (local: string, now: number) => {
  const y = local.slice(0, 4);
  return y === String(new Date(now).getUTCFullYear()) ? '' : ` ${y}`;
};

/** The answer of the server: words, the next occurrences, clock changes and the load of those minutes. */
export function PreviewPane({
  def,
  base,
  query,
  edited,
  fresh,
  children,
}: {
  def: Definition;
  base: Definition;
  fresh: boolean;
  query: ReturnType<typeof usePreview>['query'];
  edited: boolean;
  /** What saving would change: before the load, which may be far down. */
  children?: ReactNode;
}) {
  const now = useNow();
  const data = query.data;
  if (!data)
    return query.error ? (
      <ProblemView error={query.error} retry={() => void query.refetch()} />
    ) : (
      <Skeleton rows={6} label="Loading the preview" />
    );
  const p = data.preview;
  const { kind, expression } = scheduleOf(def.schedule);
  if (!p) {
    const empty = expression === '';
    return (
      <>
        <div className={css.none}>
          <h2>{empty ? 'When will it run?' : 'This is not a schedule yet'}</h2>
          <p>
            {empty
              ? 'Write a schedule. Its next occurrences, in local time and UTC, are shown here while you type.'
              : 'The problem is shown at its field.'}
          </p>
        </div>
        {children}
      </>
    );
  }
  const zone = p.zone.split('/').at(-1)!.replaceAll('_', ' ');
  const ahead = p.occurrences.filter((o) => !o.due_at || Date.parse(o.due_at) > now); // some pass while the page is open
  const first = ahead.find((o) => !o.skip && o.due_at)?.due_at;
  return (
    <div className={query.isPlaceholderData || query.error ? 'stale' : undefined}>
      {query.error && <ProblemView error={query.error} retry={() => void query.refetch()} quiet />}
      <div className={css.head}>
        <h2 aria-live="polite">{sentence(p.words)}</h2>
      </div>
      <table className={css.table}>
        <caption className="sr">The next occurrences</caption>
        <thead>
          <tr>
            <th scope="col">{zone}</th>
            {p.zone !== 'UTC' && <th scope="col">UTC</th>}
            <th scope="col" className="right">
              In
            </th>
          </tr>
        </thead>
        <tbody>
          {ahead.map((o, i) => (
            <OccurrenceRow key={o.due_at ?? i} line={o} now={now} utc={p.zone !== 'UTC'} />
          ))}
        </tbody>
      </table>
      {!p.more && <p className={css.note}>{p.occurrences.length === 0 ? 'It never runs.' : 'The schedule ends there.'}</p>}
      {kind === 'cron' && /\bH\b/.test(expression) && (
        <p className={css.note}>H is picked from the job's id: the times are an example until the job is saved.</p>
      )}
      {p.idempotency_key_problem && <p className={css.problem}>{p.idempotency_key_problem}</p>}
      {p.idempotency_key && def.idempotency_key !== undefined && (
        <p className={css.note}>
          Idempotency key of the first run: <code>{p.idempotency_key}</code>
        </p>
      )}
      {kind !== 'every' && p.clock_changes.length > 0 && (
        <section className={css.part}>
          <h3>Next clock changes in {zone}</h3>
          <ul>
            {p.clock_changes.map((c) => (
              <ClockChange key={c.at} change={c} def={def} eager={edited} now={now} />
            ))}
          </ul>
        </section>
      )}
      {children}
      {first && (
        <LoadPicture
          at={first}
          without={
            fresh ? ' without this job' : changes(base, def).some((c) => c.path[0] === 'schedule') ? ' without this change' : ''
          }
        />
      )}
    </div>
  );
}

const sentence = (words: string) => words.slice(0, 1).toUpperCase() + words.slice(1);

function OccurrenceRow({ line, now, utc }: { line: Line; now: number; utc: boolean }) {
  if (line.more_skipped)
    return (
      <tr>
        <td colSpan={utc ? 3 : 2} className="dim">
          and {count(line.more_skipped)} more that are skipped
        </td>
      </tr>
    );
  if (!line.due_at || !line.local) return null;
  const at = Date.parse(line.due_at);
  const l = localParts(line.local);
  const why =
    line.skip === 'calendar'
      ? 'calendar'
      : line.skip === 'dst_gap'
        ? `${line.nominal?.slice(11, 16) ?? 'it'} does not exist`
        : undefined;
  const mark =
    line.mark &&
    { shifted: `${line.nominal?.slice(11, 16) ?? 'it'} does not exist`, first_pass: 'first of two', second_pass: 'second of two' }[
      line.mark
    ];
  return (
    <tr data-skipped={line.skip || undefined}>
      <td>
        <span className={css.when}>
          {line.skip ? (
            <Mark kind="skipped" label="Skipped" />
          ) : line.mark ? (
            <Mark kind="clock" label="Clock change" />
          ) : (
            <Mark kind="planned" label="" />
          )}
          <time dateTime={line.due_at}>
            <span>
              {localDay(line.local)} {l.time}
              {l.seconds}
            </span>{' '}
            <span className="dim">
              {l.offset}
              {yearOf(line.local, now)}
            </span>
          </time>
        </span>
      </td>
      {utc && (
        <td className="dim num" title={line.due_at}>
          {clock(at, 'UTC', !!l.seconds)}Z
        </td>
      )}
      <td className="right dim num">
        {why ? (
          <span className={css.why}>
            {line.skip === 'calendar' && <Mark kind="calendar" label="" />}
            {why}
          </span>
        ) : mark ? (
          <span className="warn">{mark}</span>
        ) : (
          relative(at, now).replace(/^in /, '')
        )}
      </td>
    </tr>
  );
}

const hours = (offset: string) =>
  (Number(offset.slice(1, 3)) * 60 + Number(offset.slice(4, 6))) * (offset.startsWith('-') ? -1 : 1);

/** One change of the clock, and what the schedule does then: asked from the server. */
function ClockChange({
  change,
  def,
  eager,
  now,
}: {
  change: Schemas['ClockChangeLine'];
  def: Definition;
  eager: boolean;
  now: number;
}) {
  const [asked, setAsked] = useState(false);
  const at = Date.parse(change.at);
  const forward = hours(change.offset_after) > hours(change.offset_before);
  const by = duration(Math.abs(hours(change.offset_after) - hours(change.offset_before)) * minute);
  const schedule = def.schedule === undefined ? '' : compactExact(def.schedule);
  const from = new Date(at - 180 * minute).toISOString();
  const q = useData({
    key: ['preview-change', schedule, from],
    get: (signal) => ask(`{"schedule":${schedule},"from":${JSON.stringify(from)},"count":5}`, signal),
    enabled: eager || asked,
  });
  const found =
    q.data?.occurrences.filter(
      (o) => (o.mark || o.skip === 'dst_gap') && Math.abs(Date.parse(o.due_at ?? '') - at) < 240 * minute,
    ) ?? [];
  return (
    <li>
      <Mark kind="clock" label="" />
      <div>
        {localDay(change.local)}
        {yearOf(change.local, now)} {localParts(change.local).time}
        <span className="dim">
          {' '}
          {forward ? 'forward' : 'back'} by {by}
        </span>
      </div>
      <div className={css.effect}>
        {q.data ? (
          found.length === 0 ? (
            <span className="dim">nothing is due then</span>
          ) : (
            found.map((o, i) => <div key={i}>{effect(o)}</div>)
          )
        ) : eager || asked ? (
          <span className="dim">…</span>
        ) : (
          <TextButton onClick={() => setAsked(true)}>What happens?</TextButton>
        )}
      </div>
    </li>
  );
}

function effect(o: Line): string {
  const l = localParts(o.local ?? '');
  const nominal = o.nominal?.slice(11, 16);
  if (o.skip === 'dst_gap') return `${nominal ?? 'It'} does not exist: skipped`;
  if (o.mark === 'shifted') return `${nominal ?? 'It'} does not exist: runs at ${l.time} ${l.offset}`;
  return `${l.time} happens twice: runs at ${l.time} ${l.offset}`;
}

const span = 20;

/** How many jobs are due in the minutes around the next occurrence. Absent if the server does not say it. */
function LoadPicture({ at, without }: { at: string; without: string }) {
  const due = Math.floor(Date.parse(at) / minute) * minute;
  const [from, to] = [due - span * minute, due + (span + 1) * minute].map((t) => new Date(Math.max(t, 0)).toISOString());
  const soon = due - now() < 24 * 60 * minute;
  const q = useData<Schemas['Load']>({
    key: ['load', from, to],
    get: (signal) => snapshot(`/api/v1/load?from=${from}&to=${to}`, signal),
    enabled: soon,
  });
  const counts = q.data?.counts;
  if (!q.data || !counts || counts.length === 0) return null;
  const start = Date.parse(q.data.from);
  const own = Math.round((due - start) / minute);
  const here = counts[own] ?? 0;
  const most = Math.max(...counts, 1);
  const capacity = q.data.capacity ?? Infinity;
  const calm = counts.findIndex((c, i) => i > own && c * 2 < here);
  return (
    <section className={css.part}>
      <h3>Load around {clock(due)}Z</h3>
      <svg
        viewBox={`0 0 ${counts.length * 10} 48`}
        className={css.load}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Jobs due per minute from ${clock(start)} UTC: ${count(here)} at ${clock(due)}, at most ${count(most)}`}
      >
        {counts.map((c, i) => {
          const h = c === 0 ? 1 : Math.max((c / most) * 46, 2);
          return (
            <rect
              key={i}
              x={i * 10 + 1}
              y={48 - h}
              width="8"
              height={h}
              className={i === own ? css.own : c > capacity ? css.over : css.bar}
            />
          );
        })}
      </svg>
      <p className={css.axis}>
        <span>{clock(start)}</span>
        <span>{clock(start + (counts.length - 1) * minute)}</span>
      </p>
      <p className={css.note}>
        <b>
          {count(here)}
          {q.data.exact ? '' : ' or so'} due at {clock(due)}Z
        </b>
        {without}
        {Number.isFinite(capacity) && `, capacity ${count(capacity)}`}.
        {calm > 0 && ` ${clock(start + calm * minute)} has ${count(counts[calm]!)}.`}
      </p>
      <details className={css.twin}>
        <summary>Show as table</summary>
        <table>
          <caption className="sr">Jobs due per minute</caption>
          <thead>
            <tr>
              <th scope="col">UTC</th>
              <th scope="col">Due</th>
            </tr>
          </thead>
          <tbody>
            {counts.map((c, i) => (
              <tr key={i}>
                <th scope="row">{clock(start + i * minute)}</th>
                <td>{count(c)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </section>
  );
}
