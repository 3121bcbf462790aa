import { createContext, useContext, useEffect, useState } from 'react';
import { clock, date, dateOfYear, duration, localParts, myZone, now, offset, relative, type ZoneMode } from '../lib/time';
import css from './when.module.css';

export const ZoneContext = createContext<ZoneMode>('job');

/** The zone in which to show an instant: the job's, UTC or the user's. */
export function useZone(jobZone: string | undefined): string {
  const mode = useContext(ZoneContext);
  if (mode === 'mine') return myZone();
  return mode === 'job' && jobZone ? jobZone : 'UTC';
}

/** The time of the node, which changes as it passes. */
export function useNow(every = 1000): number {
  const [at, setAt] = useState(now);
  useEffect(() => {
    const t = setInterval(() => setAt(now()), every);
    return () => clearInterval(t);
  }, [every]);
  return at;
}

type WhenProps = {
  /** RFC 3339, or milliseconds. */
  at: string | number;
  /** The zone of the job, for "job time". */
  zone?: string | undefined;
  /** The server's text of the same instant in the job's zone: used for future times. */
  local?: string | undefined;
  seconds?: boolean;
  /** Also the time in UTC, where it differs. */
  utc?: boolean;
  /** Also how far away it is. */
  ago?: boolean;
};

/** An instant with its offset. */
export function When({ at, zone, local, seconds, utc = true, ago = false }: WhenProps) {
  const mode = useContext(ZoneContext);
  const shown = useZone(zone);
  const ms = typeof at === 'number' ? at : Date.parse(at);
  const current = useNow(ago ? 1000 : 60_000);
  if (Number.isNaN(ms)) return <span className="dim">–</span>;
  const o = mode === 'job' && local ? localParts(local).offset : offset(ms, shown);
  const time =
    mode === 'job' && local ? localParts(local).time + (seconds ? localParts(local).seconds || ':00' : '') : clock(ms, shown, seconds);
  const day = mode === 'job' && local ? [Date.parse(localParts(local).date + 'T00:00:00Z'), 'UTC'] as const : [ms, shown] as const;
  return (
    <time className={css.when} dateTime={new Date(ms).toISOString()}>
      <span className={css.day}>{dateOfYear(...day, current)}</span>{' '}
      {time} <span className="dim">{o}</span>
      {utc && o !== 'UTC' && <span className={css.utc}>{clock(ms, 'UTC', seconds)}Z</span>}
      {ago && <span className={css.ago}>{relative(ms, current)}</span>}
    </time>
  );
}

/** How long ago, with the instant as a tooltip. */
export function Ago({ at }: { at: string }) {
  const current = useNow();
  const ms = Date.parse(at);
  return (
    <time className="num" dateTime={at} title={`${date(ms)} ${clock(ms, 'UTC', true)} UTC`}>
      {relative(ms, current)}
    </time>
  );
}

/** Milliseconds as a duration; absent: a dash. */
export const Took = ({ ms }: { ms: number | null | undefined }) =>
  ms === undefined || ms === null ? <span className="dim">–</span> : <span className="num">{duration(ms)}</span>;
