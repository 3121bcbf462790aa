// Texts for instants and durations. Past instants are formatted here. Future ones in the zone of a job are texts from
// the server, because the browser's time zone data may be older than the node's.

export type ZoneMode = 'job' | 'utc' | 'mine';

export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

// The clock of this machine may be wrong. Each answer has the time of the node, in whole seconds: the difference is corrected
// as far as the answers prove it.
let skew = 0;

/** Notes the Date header of an answer that has just arrived. */
export function heard(header: string | null): void {
  const low = Date.parse(header ?? '') - Date.now();
  if (!Number.isNaN(low)) skew = Math.min(Math.max(skew, low), low + second);
}

/** The time of the node, as far as its answers tell; advanced by this machine's clock. */
export const now = (): number => Date.now() + skew;

export const myZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options);
  let f = formats.get(key);
  if (!f) {
    try {
      f = new Intl.DateTimeFormat('en-GB', { timeZone: zone, hourCycle: 'h23', ...options });
    } catch { // a zone that this browser does not know
      f = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', hourCycle: 'h23', ...options });
    }
    formats.set(key, f);
  }
  return f;
}

/** The offset of a zone at an instant, such as "+02" or "+05:30"; "UTC" for none. */
export function offset(at: number, zone: string): string {
  const part = format(zone, { timeZoneName: 'longOffset' }).formatToParts(at).find((p) => p.type === 'timeZoneName');
  const m = /([+-]\d\d)(?::(\d\d))?/.exec(part?.value ?? '');
  if (!m || m[0] === '+00:00') return 'UTC';
  return m[1] + (m[2] && m[2] !== '00' ? ':' + m[2] : '');
}

export const clock = (at: number, zone = 'UTC', seconds = false): string =>
  format(zone, { hour: '2-digit', minute: '2-digit', ...(seconds ? { second: '2-digit' } : {}) }).format(at);

export const date = (at: number, zone = 'UTC'): string => format(zone, { day: 'numeric', month: 'short' }).format(at);

/** The day, with its year unless that is the current one, all in the zone. */
export function dateOfYear(at: number, zone: string, now: number): string {
  const year = format(zone, { year: 'numeric' });
  return year.format(at) === year.format(now) ? date(at, zone) : `${date(at, zone)} ${year.format(at)}`;
}

export const longDate = (at: number, zone = 'UTC'): string =>
  format(zone, { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' }).format(at);

export const weekday = (at: number, zone = 'UTC'): string => format(zone, { weekday: 'short' }).format(at);

export const dayOfMonth = (at: number, zone = 'UTC'): string => format(zone, { day: 'numeric' }).format(at);

export const month = (at: number, zone = 'UTC'): string => format(zone, { month: 'short' }).format(at);

/** A duration in words with one or two units: "4 ms", "12.3 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function duration(ms: number): string {
  const a = Math.abs(ms);
  if (a < second) return `${Math.round(a)} ms`;
  if (a < 10 * second) return `${(a / second).toFixed(1).replace(/\.0$/, '')} s`;
  if (a < minute) return `${Math.floor(a / second)} s`;
  const two = (big: number, unit: string, small: number, rest: string) => {
    const n = Math.floor((a % big) / small);
    return `${Math.floor(a / big)} ${unit}${n ? ` ${n} ${rest}` : ''}`;
  };
  if (a < hour) return two(minute, 'min', second, 's');
  if (a < day) return two(hour, 'h', minute, 'min');
  return two(day, 'd', hour, 'h');
}

/** How far an instant is from now, in one unit: "in 4 s", "3 min ago". */
export function relative(at: number, now: number): string {
  const d = at - now;
  const a = Math.abs(d);
  if (a < second) return 'now';
  let text: string;
  if (a < minute) text = `${Math.floor(a / second)} s`;
  else if (a < hour) text = `${Math.floor(a / minute)} min`;
  else if (a < day) text = `${Math.floor(a / hour)} h`;
  else text = `${Math.floor(a / day)} d`;
  return d > 0 ? `in ${text}` : `${text} ago`;
}

/** Go's form of a duration, such as "1h30m", in milliseconds; NaN if it is none. */
export function parseDuration(text: string): number {
  const units: Record<string, number> = { ms: 1, s: second, m: minute, h: hour, d: day, w: 7 * day };
  let rest = text.trim();
  let total = 0;
  if (rest === '') return NaN;
  while (rest !== '') {
    const m = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/.exec(rest);
    if (!m) return NaN;
    total += Number(m[1]) * units[m[2]!]!;
    rest = rest.slice(m[0].length);
  }
  return total;
}

/** The parts of a local time as the server writes it: "2026-03-30T02:00:00+02:00". */
export function localParts(text: string): { date: string; time: string; seconds: string; offset: string } {
  const m = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(?:\.\d+)?(Z|[+-]\d\d:\d\d)?/.exec(text);
  if (!m) return { date: text, time: '', seconds: '', offset: '' };
  const o = m[4] ?? '';
  return {
    date: m[1]!, time: m[2]!, seconds: m[3] && m[3] !== ':00' ? m[3] : '',
    offset: o === 'Z' || o === '+00:00' ? 'UTC' : o.replace(/:00$/, ''),
  };
}

/** Milliseconds from UTC to a zone at an instant. */
export function zoneOffset(at: number, zone: string): number {
  const m = /^([+-])(\d\d)(?::(\d\d))?$/.exec(offset(at, zone));
  if (!m) return 0;
  return (m[1] === '-' ? -1 : 1) * (Number(m[2]) * hour + Number(m[3] ?? 0) * minute);
}
