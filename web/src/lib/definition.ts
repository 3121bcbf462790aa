import { compactExact, equalExact, isObject, parseExact, Raw, type Exact, type ExactObject } from './json';
import { parseDuration } from './time';

// The definition of a job as a tree. The form, the YAML and the requests are views of it. Fields that the form does
// not know stay as they are.

export type Definition = ExactObject;
export type Path = readonly string[];

/** The fields that a user writes, in the order in which files have them. */
export const inputFields = [
  'name',
  'description',
  'owner',
  'labels',
  'queue',
  'priority',
  'schedule',
  'target',
  'payload',
  'retry',
  'missed',
  'overlap',
  'timeout',
  'report_timeout',
  'deadline',
  'delivery',
  'concurrency',
  'idempotency_key',
  'pause_after_failures',
  'keep_finished_for',
] as const;

const serverFields = new Set([
  'id',
  'state',
  'version',
  'created_at',
  'created_by',
  'updated_at',
  'updated_by',
  'next_due_at',
  'next_due_local',
  'words',
  'zone',
  'note',
  'paused_at',
  'paused_by',
  'paused_until',
  'last_run',
  'recent',
  'warnings',
]);

/** The text of a path, as the API names fields. */
export const fieldName = (path: Path): string => path.join('.');

export function getIn(value: Exact | undefined, path: Path): Exact | undefined {
  let v = value;
  for (const key of path) {
    if (!isObject(v) || !Object.hasOwn(v, key)) return undefined;
    v = v[key];
  }
  return v;
}

const entries = (o: ExactObject) => Object.keys(o).map((k): [string, Exact] => [k, o[k]!]);

/** Objects have no prototype, so that a key may be __proto__. */
export function objectOf(list: Iterable<readonly [string, Exact]>): ExactObject {
  const out = Object.create(null) as ExactObject;
  for (const [k, v] of list) out[k] = v;
  return out;
}

/** A copy with another value at a path. undefined removes it, and the objects that become empty by that. */
export function setIn(value: Exact | undefined, path: Path, next: Exact | undefined): Definition {
  const here = isObject(value) ? value : objectOf([]);
  const [key, ...rest] = path as [string, ...string[]];
  let child = next;
  if (rest.length > 0) {
    const old = Object.hasOwn(here, key) ? here[key] : undefined;
    if (next === undefined && !isObject(old)) return here;
    child = setIn(old, rest, next);
    if (next === undefined && Object.keys(child).length === 0) child = undefined;
  }
  const out = objectOf(entries(here).filter(([k]) => k !== key || child !== undefined));
  if (child !== undefined) out[key] = child;
  return out;
}

/** What a user would write of a job that the server sent: without the fields that the server adds, in the usual order. */
export function inputForm(job: Exact): Definition {
  if (!isObject(job)) return objectOf([]);
  const kept = entries(job).filter(([k]) => !serverFields.has(k));
  const rank = (k: string) => {
    const i = inputFields.indexOf(k as never);
    return i < 0 ? inputFields.length : i;
  };
  return objectOf(kept.toSorted((a, b) => rank(a[0]) - rank(b[0])));
}

export type Kind = 'cron' | 'every' | 'rrule' | 'at';
export const kinds: readonly Kind[] = ['cron', 'every', 'rrule', 'at'];

/** A schedule that is one text, taken apart as the server does it. */
function parseText(text: string): [Kind, string] {
  const t = text.trim();
  if (/^\d{4}-/.test(t)) return ['at', t];
  if (/FREQ=/i.test(t)) return ['rrule', t];
  const every = /^@?every (.*)$/is.exec(t);
  return every ? ['every', every[1]!.trim()] : ['cron', t];
}

/** The kind of a schedule and its expression. */
export function scheduleOf(schedule: Exact | undefined): { kind: Kind; expression: string; spec: ExactObject } {
  if (typeof schedule === 'string') {
    const [kind, expression] = parseText(schedule);
    return { kind, expression, spec: objectOf([[kind, expression]]) };
  }
  const spec = isObject(schedule) ? schedule : objectOf([]);
  const kind = kinds.find((k) => Object.hasOwn(spec, k)) ?? 'cron';
  const text = spec[kind];
  return { kind, expression: typeof text === 'string' ? text : '', spec };
}

/** A definition with another schedule expression. A schedule that was one text stays one. */
export function withExpression(def: Definition, kind: Kind, expression: string): Definition {
  const old = scheduleOf(def.schedule);
  if (typeof def.schedule === 'string') {
    const text = kind === 'every' ? `every ${expression}` : expression;
    const [seen, rest] = parseText(text);
    if (seen === kind && rest === expression) return setIn(def, ['schedule'], text);
  }
  // every has no zone of its own, and only every and rrule have an anchor.
  const drop = new Set<string>(kinds);
  if (kind !== 'every' && kind !== 'rrule') drop.add('anchor');
  const rest = entries(old.spec).filter(([k]) => !drop.has(k));
  return setIn(def, ['schedule'], objectOf([[kind, expression], ...rest]));
}

/** A definition with another option of its schedule, such as timezone. */
export function withOption(def: Definition, path: Path, value: Exact | undefined): Definition {
  const { spec } = scheduleOf(def.schedule);
  if (value === undefined && typeof def.schedule === 'string') return def;
  return setIn(def, ['schedule'], setIn(spec, path, value));
}

/** The defaults of the server, by field. */
export const defaults: Readonly<Record<string, string>> = {
  queue: '"default"',
  priority: '0',
  overlap: '"skip"',
  timeout: '"30s"',
  delivery: '"at_least_once"',
  report_timeout: '"1h"',
  keep_finished_for: '"24h"',
  pause_after_failures: '0',
  'retry.max_attempts': '3',
  'retry.backoff': '"exponential"',
  'retry.base': '"5s"',
  'retry.cap': '"15m"',
  'retry.jitter': '0.2',
  'missed.policy': '"once"',
  'missed.catch_up_window': '"30m"',
  'missed.max': '100',
  'missed.pace': '"1s"',
  'missed.paused': '"skip"',
  'missed.created': '"once"',
  'concurrency.max': '1',
  'schedule.timezone': '"UTC"',
  'schedule.dst.gap': '"shift"',
  'schedule.dst.fold': '"first"',
  description: '""',
  owner: '""',
};

/** The default of a field as a text, for a placeholder. */
export function defaultText(field: string): string {
  const d = defaults[field];
  return d === undefined ? '' : d.replace(/^"|"$/g, '');
}

export function isDefault(field: string, value: Exact | undefined): boolean {
  if (value === undefined || value === null) return true;
  const d = defaults[field];
  if (d === undefined) return false;
  if (equalExact(value, parseExact(d))) return true;
  const ms = typeof value === 'string' ? parseDuration(value) : NaN;
  return !Number.isNaN(ms) && ms === parseDuration(d.replaceAll('"', ''));
}

/** A definition without its defaults, so that two with the same meaning are equal. */
export function normalForm(def: Definition): Definition {
  const strip = (value: ExactObject, prefix: string): ExactObject => {
    const out: [string, Exact][] = [];
    for (const [k, v] of entries(value)) {
      const field = prefix + k;
      if (isDefault(field, v)) continue;
      if (!isObject(v) || field === 'payload' || field === 'target') {
        if (!(Array.isArray(v) && v.length === 0 && field === 'schedule.calendars')) out.push([k, v]);
        continue;
      }
      const inner = strip(v, field + '.');
      if (Object.keys(inner).length > 0) out.push([k, inner]);
    }
    return objectOf(out);
  };
  const spec = def.schedule === undefined ? {} : { schedule: scheduleOf(def.schedule).spec };
  return strip(objectOf([...entries(inputForm(def)), ...entries(spec as ExactObject)]), '');
}

/** A field whose values differ. An absent value is undefined: it has its default. */
/** `omitted`: the server did not send the values, because they are too large. */
export type Change = { path: Path; before: Exact | undefined; after: Exact | undefined; omitted?: boolean };

/** The fields in which two definitions differ, defaults apart. */
export function changes(before: Definition, after: Definition): Change[] {
  const out: Change[] = [];
  const compare = (a: ExactObject, b: ExactObject, path: Path) => {
    for (const k of new Set([...Object.keys(a), ...Object.keys(b)])) {
      const [x, y] = [getIn(a, [k]), getIn(b, [k])];
      const deeper = [...path, k];
      const tree = (v: Exact | undefined) => v === undefined || isObject(v);
      if (deeper[0] !== 'payload' && tree(x) && tree(y)) {
        compare(isObject(x) ? x : objectOf([]), isObject(y) ? y : objectOf([]), deeper);
      } else if (!equalExact(x, y)) out.push({ path: deeper, before: x, after: y });
    }
  };
  compare(normalForm(before), normalForm(after), []);
  const rank = (c: Change) => inputFields.indexOf(c.path[0] as never);
  return out.toSorted((a, b) => rank(a) - rank(b));
}

/** The changes made to `base` in `mine`, made to `theirs`. */
export function merge(base: Definition, mine: Definition, theirs: Definition): Definition {
  let out = normalForm(theirs);
  for (const c of changes(base, mine)) out = setIn(out, c.path, c.after);
  return inputForm(out);
}

/** Fields that two sides changed in different ways. */
export function conflicts(base: Definition, mine: Definition, theirs: Definition): Path[] {
  const other = changes(base, theirs);
  const within = (a: Path, b: Path) => a.length <= b.length && a.every((k, i) => k === b[i]);
  const clash = (a: Change, b: Change) =>
    (within(a.path, b.path) || within(b.path, a.path)) && !(a.path.length === b.path.length && equalExact(a.after, b.after));
  return changes(base, mine)
    .filter((c) => other.some((o) => clash(c, o)))
    .map((c) => c.path);
}

/** A value on one line, for a list of changes. */
export function brief(value: Exact | undefined, field = ''): string {
  if (value === undefined) return defaultText(field) || 'none';
  if (typeof value === 'string' && value !== '') return value;
  return compactExact(value);
}

/** A text of an input as a value: whole numbers and decimals are numbers, all else is left to the server to refuse. */
export const numberOr = (text: string): Exact =>
  /^-?\d+(\.\d+)?$/.test(text.trim()) && !/^-?0\d/.test(text.trim()) ? new Raw(text.trim()) : text;
