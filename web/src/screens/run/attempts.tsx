import type { CSSProperties } from 'react';
import { plural } from '../../lib/number';
import { clock, date, duration } from '../../lib/time';
import { kindOf, Mark, type Kind } from '../../ui/mark';
import { Section, Sideways } from '../../ui/page';
import { Took, useNow, useZone } from '../../ui/when';
import { waterfall, type Attempt, type Row } from './waterfall';
import css from './run.module.css';

type Props = {
  run: { due_at: string; run_at: string; origin: string; attempt: number; state: string; attempts: Attempt[] };
  zone: string | undefined;
};

const kind = (a: Attempt): Kind => {
  if (a.state === 'lost') return 'unknown';
  if (a.state === 'snoozed') return 'retrying';
  return kindOf({ state: a.state });
};

/** The attempts as a table and a picture at once: each row has its times and its bar on one axis. */
export function Attempts({ run, zone }: Props) {
  const now = useNow(1000);
  const live = run.attempts.some((a) => a.state === 'running' || a.state === 'accepted');
  const w = waterfall(run, live ? now : 0);
  const shown = useZone(zone);
  if (run.attempts.length === 0) return null;
  const kept = run.attempts[0]!.attempt > 1;
  const due = Date.parse(run.due_at);
  const first = w.rows[0];
  return (
    <Section title="Attempts" id="attempts" aside={<span className="dim">{duration(w.total)} from {w.dueBefore ? 'the first start'
      : 'the due time'} to {live ? 'now' : 'the end'}</span>}>
      <Sideways label="Attempts of the run">
        <table className={css.attempts}>
          <caption className="sr">Attempts of the run</caption>
          <thead>
            <tr>
              <th scope="col">#</th><th scope="col">Started</th><th scope="col" className="right">Took</th><th scope="col"
                className={css.where}>Where</th>
              <th scope="col" className={css.axis}>
                <span className="sr">Time</span>
                {w.ticks.map((t) => <span key={t.ms} aria-hidden="true"
                  style={t.at > 95 ? { right: 0, transform: 'none' } : { left: `${t.at}%` }}>{t.ms === 0 ? '0' : duration(t.ms)}</span>)}
              </th>
              <th scope="col" className={css.message}>Message</th>
            </tr>
          </thead>
          <tbody>{w.rows.map((row) => <AttemptRow key={row.attempt.attempt} row={row} ticks={w.ticks.map((t) => t.at)}
            zone={shown} />)}</tbody>
        </table>
      </Sideways>
      <p className={css.foot}>
        Due {date(due, shown)} {clock(due, shown, true)}
        {w.dueBefore > 0 ? `, ${duration(w.dueBefore)} before the first attempt that is shown.` : first?.wait
          ? `, started after ${duration(first.wait.ms)}.` : ', started on time.'}
        {kept && ` Only the last ${plural(run.attempts.length, 'attempt')} are kept.`}
      </p>
    </Section>
  );
}

function AttemptRow({ row, ticks, zone }: { row: Row; ticks: number[]; zone: string }) {
  const a = row.attempt;
  const k = kind(a);
  const at = Date.parse(a.started_at ?? '');
  const style = (b: { left: number; width: number }): CSSProperties => ({ left: `${b.left}%`, width: `${b.width}%` });
  const where = a.worker ?? a.node ?? '–';
  const message = row.sameMessage ? <span className="dim">same message</span>
    : a.message ? <code>{a.message}</code> : <span className="dim">{a.state}</span>;
  return (
    <>
      <tr>
        <td><span className={css.n}><Mark kind={k} label={a.state} />{a.attempt}</span></td>
        <td className="num">{Number.isNaN(at) ? '–' : `${clock(at, zone, true)}.${String(at % 1000).padStart(3, '0')}`}</td>
        <td className="right num"><Took ms={row.took} /></td>
        <td className={`dim ${css.where}`} title={a.session}>{where}</td>
        <td className={css.lane}>
          <div aria-hidden="true">
            {ticks.map((t) => <i key={t} className={css.grid} style={{ left: `${t}%` }} />)}
            {row.wait && (
              <span className={css.wait} data-wide={row.wait.width > 30 || undefined} style={style(row.wait)}>
                {row.wait.width > 8 && <em>{duration(row.wait.ms)}</em>}
              </span>
            )}
            {row.bar && (
              <span className={css.bar} data-kind={k} data-wide={row.bar.width > 20 || undefined} style={style(row.bar)}>
                {row.bar.width > 5 && a.status ? a.status : ''}
              </span>
            )}
          </div>
          {row.wait && <span className="sr">waited {duration(row.wait.ms)}</span>}
        </td>
        <td className={css.message}>{message}</td>
      </tr>
      <tr className={css.below}>
        <td colSpan={4}>{message} <span className="dim">on {where}</span></td>
      </tr>
    </>
  );
}
