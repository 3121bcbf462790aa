import { clock, date, day, dayOfMonth, hour, localParts, month, weekday, type ZoneMode } from '../../lib/time';
import { gapOf, type TimelineColumn } from './columns';

// The texts below and above the columns: days or times, depending on how far the columns are apart.

export type Tick = { top: string; bottom: string; group: string };

type Local = { date: string; time: string };

const weekdays = ['S', 'M', 'T', 'W', 'T', 'F', 'S'];

function local(c: TimelineColumn, zone: string, mode: ZoneMode): Local & { day: number } {
  if (c.kind === 'one' && mode === 'job') {
    const p = localParts(c.item.local);
    const at = Date.parse(p.date + 'T00:00:00Z');
    return { date: p.date, time: p.time + p.seconds, day: at };
  }
  const seconds = c.at % 60_000 !== 0;
  const time = clock(c.at, zone, seconds);
  // The date as an instant at midnight in UTC, from the parts in the zone.
  const at = Date.parse(`${dayOfMonth(c.at, zone)} ${month(c.at, zone)} ${new Date(c.at).getUTCFullYear()} 00:00:00 UTC`);
  return { date: date(c.at, zone), time, day: at };
}

/** The ticks of columns. The first of a group has its name, so that each is written once. */
export function ticks(columns: TimelineColumn[], zone: string, mode: ZoneMode): Tick[] {
  const gap = gapOf(columns.map((c) => c.at)) ?? day;
  const days = gap >= 20 * hour;
  let last = '';
  return columns.map((c) => {
    const l = local(c, zone, mode);
    const group = days ? month(l.day) : `${weekday(l.day)} ${date(l.day)}`;
    const first = group !== last;
    last = group;
    return {
      top: days ? weekdays[new Date(l.day).getUTCDay()]! : '',
      bottom: days ? dayOfMonth(l.day) : l.time,
      group: first ? group : '',
    };
  });
}

/** Each how many columns have room for a text of this width. */
export const every = (columns: number, width: number, text: number): number => {
  if (columns === 0 || width === 0) return 1;
  return Math.max(1, Math.ceil(text / (width / columns)));
};

/** Where the line of now is, in columns from the left; undefined: it is not in view. */
export function nowAt(columns: TimelineColumn[], now: number, from: number, to: number): number | undefined {
  if (now < from || now >= to || columns.length === 0) return undefined;
  let n = 0;
  for (const c of columns) {
    if (c.kind === 'one' ? c.at <= now : c.to <= now) n++;
    else if (c.kind !== 'one' && c.at < now) return n + (now - c.at) / (c.to - c.at);
    else break;
  }
  return n;
}
