import { ApiProblem, idempotencyKey, send, type Schemas } from '../../api/client';
import type { Change } from '../../lib/definition';
import { compactExact, isObject, parseExact, Raw, type Exact } from '../../lib/json';
import type { Contents, Job } from './read';

// What the screen asks of the API: compare, take a crontab apart, and apply.

export type Result = Schemas['JobDiff']['result'];

export type Row = {
  /** Its place in the file: two jobs may be on one line. */
  id: number;
  line: number;
  name: string;
  result: Result;
  changes: Change[];
  /** Further fields that differ, which the server did not name. */
  more?: number;
  problems: string[];
  before?: number;
  after?: number;
  version?: number;
  job?: Job;
};

const ndjson = { 'Content-Type': 'application/x-ndjson' };
const chunk = 1000;

const chunks = (jobs: Job[]): Job[][] =>
  Array.from({ length: Math.ceil(jobs.length / chunk) }, (_, i) => jobs.slice(i * chunk, (i + 1) * chunk));

const bodyOf = (jobs: Job[]) => jobs.map((j) => compactExact(j.def)).join('\n') + '\n';

const get = (v: Exact | undefined, key: string): Exact | undefined => (isObject(v) && Object.hasOwn(v, key) ? v[key] : undefined);
const listOf = (v: Exact | undefined): Exact[] => (Array.isArray(v) ? v : []);
const textOf = (v: Exact | undefined): string => (typeof v === 'string' ? v : '');
const numberOf = (v: Exact | undefined): number | undefined => (v instanceof Raw ? Number(v.source) : undefined);

const problemText = (p: Exact): string => {
  const [field, problem, fix] = [textOf(get(p, 'field')), textOf(get(p, 'problem')), textOf(get(p, 'fix'))];
  return `${field}${field && ': '}${problem}${fix && `; ${fix}`}`;
};

/** What applying a job would do, from an item of the comparison. */
export function rowOf(item: Exact, job: Job): Omit<Row, 'id'> {
  const row: Omit<Row, 'id'> = {
    line: job.line,
    name: job.name,
    job,
    result: textOf(get(item, 'result')) as Result,
    problems: listOf(get(item, 'problems')).map(problemText),
    changes: listOf(get(item, 'fields')).map((f) => ({
      path: textOf(get(f, 'field')).split('.'),
      before: get(f, 'before'),
      after: get(f, 'after'),
      ...(get(f, 'omitted') === true && { omitted: true }),
    })),
  };
  for (const [key, name] of [
    ['before', 'occurrences_before'],
    ['after', 'occurrences_after'],
    ['version', 'version'],
    ['more', 'more_fields'],
  ] as const) {
    const n = numberOf(get(item, name));
    if (n !== undefined) row[key] = n;
  }
  return row;
}

/** One row per job: what applying it would do. Values of fields are exact. */
export async function compare(contents: Contents, signal: AbortSignal): Promise<Row[]> {
  const rows: Omit<Row, 'id'>[] = contents.refused.map((r) => ({
    line: r.line,
    name: r.name,
    result: 'refused',
    changes: [],
    problems: [r.problem],
  }));
  for (const jobs of chunks(contents.jobs)) {
    const answer = parseExact(await send('POST', '/api/v1/jobs:diff', bodyOf(jobs), ndjson, signal));
    for (const item of listOf(get(answer, 'items'))) {
      const job = jobs[(numberOf(get(item, 'line')) ?? 0) - 1];
      if (job) rows.push(rowOf(item, job));
    }
  }
  return rows.toSorted((a, b) => a.line - b.line).map((r, id) => ({ ...r, id }));
}

export type CrontabOptions = { url: string; timezone: string; prefix: string; system: boolean };

/** The jobs of a crontab, and its lines that cannot be jobs. */
export async function readCrontab(crontab: string, o: CrontabOptions, signal: AbortSignal): Promise<Contents> {
  const query = new URLSearchParams({ url: o.url });
  if (o.timezone) query.set('timezone', o.timezone);
  if (o.prefix) query.set('prefix', o.prefix);
  if (o.system) query.set('system', 'true');
  const path = `/api/v1/imports:crontab?${query}`;
  return crontabContents(parseExact(await send('POST', path, crontab, { 'Content-Type': 'text/plain' }, signal)));
}

/** The jobs of a crontab with the lines on which the server found them. */
export function crontabContents(answer: Exact): Contents {
  const refused = listOf(get(answer, 'problems')).map((p) => ({
    line: numberOf(get(p, 'line')) ?? 0,
    name: '',
    problem: `${textOf(get(p, 'problem'))}: ${textOf(get(p, 'text'))}`,
  }));
  const defs = listOf(get(answer, 'jobs')).filter(isObject);
  const lines = listOf(get(answer, 'lines')).map(numberOf);
  const jobs = defs.map((def, i): Job => ({
    line: lines[i] ?? 0,
    name: textOf(get(def, 'name')),
    def,
  }));
  return { jobs, refused, notes: listOf(get(answer, 'notes')).map(textOf) };
}

export type Done = { result: 'created' | 'changed' | 'same' | 'refused'; id?: string; problem?: string };

/** The Idempotency-Keys of one import: a retry creates nothing twice. */
export type Keys = Map<string, string>;

const reason = (e: unknown): string => {
  if (!(e instanceof ApiProblem)) return e instanceof Error ? e.message : String(e);
  return e.problems.length > 0
    ? e.problems.map((p) => `${p.field}: ${p.problem}${p.fix ? `; ${p.fix}` : ''}`).join('. ')
    : e.detail;
};

/** An error that every further job would meet too, such as a node that does not answer. */
const hopeless = (e: unknown): boolean =>
  !(e instanceof ApiProblem) || e.status === 0 || e.status === 401 || e.status === 403 || e.status === 429 || e.status >= 500;

/** Creates the new jobs, many in a request, and replaces the changed ones. Reports each line as soon as it is done. */
export async function apply(rows: Row[], keys: Keys, report: (row: Row, done: Done) => void, signal: AbortSignal): Promise<void> {
  const creating = rows.filter((r) => r.result === 'create' && r.job);
  for (let i = 0; i < creating.length && !signal.aborted; i += chunk) {
    const part = creating.slice(i, i + chunk);
    const body = bodyOf(part.map((r) => r.job!));
    const key = keys.get(body) ?? idempotencyKey();
    keys.set(body, key);
    const answer = parseExact(await send('POST', '/api/v1/jobs:bulk', body, { ...ndjson, 'Idempotency-Key': key }, signal));
    for (const item of listOf(get(answer, 'items'))) {
      const row = part[(numberOf(get(item, 'line')) ?? 0) - 1];
      const problem = get(item, 'problem');
      if (!row) continue;
      if (problem === undefined) report(row, { result: 'created', id: textOf(get(item, 'id')) });
      else {
        const fields = listOf(get(problem, 'problems')).map(problemText).join('. ');
        report(row, { result: 'refused', problem: fields || textOf(get(problem, 'detail')) || textOf(get(problem, 'title')) });
      }
    }
  }
  const queue = rows.filter((r) => r.result === 'change' && r.job);
  const worker = async () => {
    for (let row = queue.shift(); row && !signal.aborted; row = queue.shift()) {
      try {
        report(row, await replace(row, signal));
      } catch (e) {
        if (hopeless(e)) throw e;
        report(row, { result: 'refused', problem: reason(e) });
      }
    }
  };
  await Promise.all(Array.from({ length: 4 }, worker));
}

/** Replaces one job, unless it has changed since it was compared. */
async function replace(row: Row, signal: AbortSignal): Promise<Done> {
  const path = `/api/v1/jobs/${encodeURIComponent(row.name)}`;
  const { version } = row;
  const answer = parseExact(await send('PUT', path, compactExact(row.job!.def), { 'If-Match': `"${version}"` }, signal));
  return { result: numberOf(get(answer, 'version')) === version ? 'same' : 'changed', id: textOf(get(answer, 'id')) };
}
