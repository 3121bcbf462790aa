import { inputForm, type Definition } from '../../lib/definition';
import { isObject, parseExact, TextError, type Exact } from '../../lib/json';

// Reads a file in the browser. Nothing is sent anywhere before its jobs are compared through the API.

/** What one import may have: as much as one bulk request of the API. */
export const maxBytes = 16 * 1024 * 1024;
export const maxJobs = 5000;

export type Format = 'jobs' | 'crontab';

export type Job = { line: number; name: string; def: Definition };
export type Refusal = { line: number; name: string; problem: string };
/** `notes` is what the server left out of a crontab. */
export type Contents = { jobs: Job[]; refused: Refusal[]; notes?: string[] };

/** Why a file cannot be read at all; undefined: it can. */
export function unreadable(size: number, text: string): string | undefined {
  const mb = (n: number) => `${(n / 1024 / 1024).toFixed(1)} MB`;
  if (size > maxBytes)
    return `The file has ${mb(size)}. At most ${mb(maxBytes)} can be imported at once: split it, or use belfry apply.`;
  if (text.includes('\0')) return 'This is not a text file. Choose a YAML, JSON or crontab file.';
  if (text.trim() === '') return 'The file is empty.';
  return undefined;
}

const entry = /^\s*-?(@[a-z]+|([\d*/,\-?LW#A-Za-z]+\s+){4}[\d*/,\-?LW#A-Za-z]+)\s+\S/;
const variable = /^\s*["']?[A-Za-z_]\w*["']?\s*=/;

/** A crontab has lines with five fields and a command. Its name often says so as well. */
export function formatOf(name: string, text: string): Format {
  if (/\.(ya?ml|json|ndjson|jsonl)$/i.test(name)) return 'jobs';
  const lines = text.split('\n').filter((l) => l.trim() !== '' && !l.trim().startsWith('#'));
  if (lines.length === 0) return /cron/i.test(name) ? 'crontab' : 'jobs';
  const cron = lines.filter((l) => entry.test(l) || variable.test(l)).length;
  return cron * 2 > lines.length && lines.some((l) => entry.test(l)) ? 'crontab' : 'jobs';
}

type YAML = Pick<typeof import('../../lib/yaml'), 'fromYAML'>;

type Item = { line: number; value: Exact };

/** Jobs of a JSON, NDJSON or YAML text. The error is a TextError. */
function items(text: string, yaml: YAML): Item[] {
  const lines = text.split('\n');
  const objects = lines.map((l, i): [string, number] => [l, i + 1]).filter(([l]) => l.trim() !== '');
  if (objects.length > 1 && objects.every(([l]) => /^\s*\{.*\}\s*$/.test(l))) {
    return objects.map(([l, line]) => {
      try {
        return { line, value: parseExact(l) };
      } catch (e) {
        if (e instanceof TextError) throw new TextError(e.message, line, e.column);
        throw e;
      }
    });
  }
  return yaml.fromYAML(text);
}

/** The jobs of a text, and what is no job. The error is a TextError. */
export function readJobs(text: string, yaml: YAML): Contents {
  const out: Contents = { jobs: [], refused: [] };
  const seen = new Map<string, number>();
  const found = items(text, yaml);
  if (found.length > maxJobs) {
    throw new TextError(
      `There are ${found.length} jobs. At most ${maxJobs} can be imported at once: split the file, or use belfry apply.`,
      1,
      1,
    );
  }
  for (const { line, value } of found) {
    const name = isObject(value) && typeof value.name === 'string' ? value.name : '';
    const refuse = (problem: string) => out.refused.push({ line, name, problem });
    const before = seen.get(name);
    if (!isObject(value)) refuse('It is not a job.');
    else if (value.name === undefined || value.name === '') refuse('The job has no name.');
    else if (name === '') refuse('The name is not a string.');
    else if (before !== undefined) refuse(`The job ${name} is also on line ${before}. Names are unique.`);
    else {
      seen.set(name, line);
      out.jobs.push({ line, name, def: inputForm(value) });
    }
  }
  return out;
}
