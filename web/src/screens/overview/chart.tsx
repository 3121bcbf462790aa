import { useState } from 'react';
import type { Schemas } from '../../api/client';
import { count, plural, short } from '../../lib/number';
import { clock, duration } from '../../lib/time';
import { kindOf, Mark, type Kind } from '../../ui/mark';
import { Section } from '../../ui/page';
import css from './overview.module.css';

type Minute = Schemas['StatPoint'];

const width = 720;
const left = 52;
const bars = { top: 8, height: 128 };
const lane = { top: 144, height: 18 };
const line = { top: 170, height: 64 };
const axis = 250;

/** A round number that is at least n: 1, 2 or 5 times a power of ten. */
export function ceiling(n: number): number {
  if (n <= 1) return 1;
  const p = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((m) => m * p).find((x) => x >= n)!;
}

/** Milliseconds on a logarithmic scale between 1 ms and the top, as a share of the height. */
export const logShare = (ms: number, top: number): number => Math.min(Math.max(Math.log10(Math.max(ms, 1)) / Math.log10(top), 0), 1);

/** Up to three lines of a logarithmic scale that ends at a power of ten, the highest first, not below 10 ms. */
export function decades(top: number): number[] {
  const exponents = Array.from({ length: Math.max(Math.round(Math.log10(top)), 1) }, (_, i) => Math.round(Math.log10(top)) - i);
  const step = Math.max(Math.ceil(exponents.length / 3), 1);
  return exponents.filter((_, i) => i % step === 0).map((e) => 10 ** e);
}

/** A power of ten in milliseconds, short enough for an axis. */
export const tick = (ms: number): string =>
  ms < 1000 ? `${ms} ms` : ms < 120_000 ? `${ms / 1000} s` : ms < 7_200_000 ? `${Math.round(ms / 60_000)} min`
    : `${Math.round(ms / 3_600_000)} h`;

/** What the lane between the charts shows for a minute: the worst of what is too rare to be seen in a bar. */
export function laneMark(m: Minute): Kind | null {
  if (m.late > 0) return 'late';
  if (m.failed > 0) return 'failed';
  if (m.missed > 0) return 'missed';
  return m.skipped > 0 ? 'skipped' : null;
}

/** When nodes noticed what had been missed: after an outage, not in it. */
export function noticed(minutes: Minute[]): string {
  const at = minutes.filter((m) => m.missed > 0).map((m) => clock(Date.parse(m.at)));
  if (at.length === 0) return '';
  return at.length === 1 ? `Noticed at ${at[0]} UTC.` : `Noticed from ${at[0]} to ${at[at.length - 1]} UTC.`;
}

/** Skipped runs of the last hour, missed or for another reason: exactly the reasons that the overview counted. */
export function skippedRuns(counted: Schemas['SkippedCount'][], missed: boolean): Record<string, string> {
  const reasons = counted.map((s) => s.reason).filter((reason) => (kindOf({ state: 'skipped', reason }) === 'missed') === missed);
  return { state: 'skipped', within: '1h', ...(reasons.length > 0 && { reason: reasons.join(',') }) };
}

/** Lines through the values that there are. Where there is none, the line has a gap. */
export function segments(values: (number | undefined)[]): [index: number, value: number][][] {
  const out: [number, number][][] = [];
  values.forEach((v, i) => {
    if (v === undefined) return;
    const last = out[out.length - 1];
    if (last && last[last.length - 1]![0] === i - 1) last.push([i, v]);
    else out.push([[i, v]]);
  });
  return out;
}

const said = (m: Minute): string => {
  if (!m.counted) return `${clock(Date.parse(m.at))} UTC: no node was counting`;
  const parts = [`${clock(Date.parse(m.at))} UTC`, `${count(m.started)} started`];
  for (const k of ['failed', 'skipped', 'missed', 'late'] as const) if (m[k] > 0) parts.push(`${count(m[k])} ${k}`);
  if (m.p99_ms !== undefined) parts.push(`lateness p99 ${duration(m.p99_ms)}`);
  return parts.join(', ');
};

/** Started per minute, failures and skips in a lane of their own, and the lateness of starts, on one time axis. */
export function LastHour({ minutes }: { minutes: Minute[] }) {
  const [at, setAt] = useState<number | null>(null);
  const top = ceiling(Math.max(...minutes.map((m) => m.started + m.missed), 1));
  const slow = Math.max(...minutes.map((m) => m.p99_ms ?? 0), 100);
  const slowTop = 10 ** Math.ceil(Math.log10(slow) + 0.001);
  const step = (width - left) / Math.max(minutes.length, 1);
  const x = (i: number) => left + i * step;
  const point = ([i, ms]: [number, number]) => `${x(i) + step / 2},${line.top + line.height * (1 - logShare(ms, slowTop))}`;
  const lines = segments(minutes.map((m) => m.p99_ms));
  const total = minutes.reduce((n, m) => n + m.started, 0);
  const chosen = at === null ? undefined : minutes[at];
  return (
    <Section
      title="Last 60 minutes"
      aside={
        <span className={css.legend}>
          <span>
            <i className={css.barSwatch} />
            started per minute
          </span>
          <span>
            <Mark kind="failed" size={10} label="" />
            failed
          </span>
          <span>
            <i className={css.missedSwatch} />
            <Mark kind="missed" size={10} label="" />
            missed
          </span>
          <span>
            <Mark kind="skipped" size={10} label="" />
            skipped
          </span>
          <span>
            <Mark kind="late" size={10} label="" />
            late
          </span>
          <span>
            <i className={css.lineSwatch} />
            start lateness, p99
          </span>
        </span>
      }
    >
      <figure className={css.chart}>
        <svg
          viewBox={`0 0 ${width} 262`}
          role="img"
          aria-label={`Last 60 minutes: ${plural(total, 'run')} started. The table below has each minute.`}
          onMouseLeave={() => setAt(null)}
        >
          {[0, 0.5, 1].map((share) => (
            <g key={share}>
              <line
                x1={left}
                x2={width}
                y1={bars.top + bars.height * (1 - share)}
                y2={bars.top + bars.height * (1 - share)}
                className={css.grid}
              />
              <text x={left - 8} y={bars.top + bars.height * (1 - share) + 4} textAnchor="end">
                {short(top * share)}
              </text>
            </g>
          ))}
          {decades(slowTop).map((ms) => (
            <g key={ms}>
              <line
                x1={left}
                x2={width}
                y1={line.top + line.height * (1 - logShare(ms, slowTop))}
                y2={line.top + line.height * (1 - logShare(ms, slowTop))}
                className={css.grid}
              />
              <text x={left - 8} y={line.top + line.height * (1 - logShare(ms, slowTop)) + 4} textAnchor="end">
                {tick(ms)}
              </text>
            </g>
          ))}
          {minutes.map((m, i) => {
            const h = (m.started / top) * bars.height;
            const kind = laneMark(m);
            return (
              <g key={m.at}>
                {!m.counted && <rect x={x(i)} width={step} y={bars.top} height={bars.height} className={css.uncounted} />}
                <rect
                  x={x(i) + 1}
                  width={Math.max(step - 2, 1)}
                  y={bars.top + bars.height - h}
                  height={h}
                  rx={1}
                  className={i === minutes.length - 1 ? css.barNow : css.bar}
                  data-chosen={i === at || undefined}
                />
                {m.missed > 0 && (
                  <rect
                    x={x(i) + 1}
                    width={Math.max(step - 2, 1)}
                    y={bars.top + bars.height - h - Math.max((m.missed / top) * bars.height, 2)}
                    height={Math.max((m.missed / top) * bars.height, 2)}
                    className={css.missedBar}
                  />
                )}
                {kind && (
                  <g transform={`translate(${x(i) + step / 2 - 5}, ${lane.top + 4})`}>
                    <Mark kind={kind} size={10} label="" />
                  </g>
                )}
                {new Date(m.at).getUTCMinutes() % 10 === 0 && (
                  <text x={Math.min(x(i) + step / 2, width - 16)} y={axis} textAnchor="middle">
                    {clock(Date.parse(m.at))}
                  </text>
                )}
                <rect x={x(i)} width={step} y={0} height={axis - 14} fill="transparent" onMouseEnter={() => setAt(i)} />
              </g>
            );
          })}
          <line x1={left} x2={width} y1={lane.top} y2={lane.top} className={css.grid} />
          <line x1={left} x2={width} y1={lane.top + lane.height} y2={lane.top + lane.height} className={css.grid} />
          {lines.map((l) =>
            l.length === 1 ? (
              <circle key={l[0]![0]} cx={point(l[0]!).split(',')[0]} cy={point(l[0]!).split(',')[1]} r={1.5} className={css.line} />
            ) : (
              <polyline key={l[0]![0]} points={l.map(point).join(' ')} className={css.line} />
            ),
          )}
        </svg>
        <figcaption className={css.caption}>
          {chosen
            ? said(chosen)
            : `Times are UTC. The last minute is not over.${minutes.some((m) => !m.counted) ? ' Grey: no node was counting.' : ''}`}
        </figcaption>
      </figure>
      <details className={css.twin}>
        <summary>Show as table</summary>
        <table>
          <thead>
            <tr>
              <th>Minute (UTC)</th>
              <th>Started</th>
              <th>Failed</th>
              <th>Skipped</th>
              <th>Missed</th>
              <th>Late</th>
              <th>p50</th>
              <th>p99</th>
            </tr>
          </thead>
          <tbody>
            {minutes.map((m) => (
              <tr key={m.at}>
                <td>{clock(Date.parse(m.at))}</td>
                <td>{count(m.started)}</td>
                <td>{count(m.failed)}</td>
                <td>{count(m.skipped)}</td>
                <td>{count(m.missed)}</td>
                <td>{count(m.late)}</td>
                <td>{m.p50_ms === undefined ? '–' : duration(m.p50_ms)}</td>
                <td>{m.p99_ms === undefined ? '–' : duration(m.p99_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </Section>
  );
}
