import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compactExact, TextError } from '../../lib/json';
import * as yaml from '../../lib/yaml';
import { formatOf, maxBytes, maxJobs, readJobs, unreadable } from './read';

const names = (text: string) => readJobs(text, yaml).jobs.map((j) => `${j.line} ${j.name}`);

describe('a file of jobs', () => {
  it('is YAML, JSON or NDJSON', () => {
    expect(names('name: a\nschedule: every 1m\n---\n- name: b\n- {name: c}\n')).toEqual(['1 a', '4 b', '5 c']);
    expect(names('[\n{"name": "a"},\n{"name": "b"}]')).toEqual(['2 a', '3 b']);
    expect(names('{"name": "a"}\n\n{"name": "b"}\n')).toEqual(['1 a', '3 b']);
  });
  it('keeps numbers, and drops what the server adds', () => {
    const { jobs } = readJobs('{"id":"job_1","version":3,"words":"x","name":"a","payload":{"n":9007199254740993}}', yaml);
    expect(compactExact(jobs[0]!.def)).toBe('{"name":"a","payload":{"n":9007199254740993}}');
  });
  it('may have lines that are no jobs', () => {
    const { refused } = readJobs('- hello\n- {schedule: x}\n- {name: a}\n- {name: a}\n- {name: 7}\n', yaml);
    expect(refused).toEqual([
      { line: 1, name: '', problem: 'It is not a job.' },
      { line: 2, name: '', problem: 'The job has no name.' },
      { line: 4, name: 'a', problem: 'The job a is also on line 3. Names are unique.' },
      { line: 5, name: '', problem: 'The name is not a string.' },
    ]);
  });
  it('is refused as a whole with the line, if it cannot be read', () => {
    for (const [text, line] of [
      ['name: a\nb: [', 2],
      ['{"name":"a"}\n{"name":}\n', 2],
    ] as const) {
      let found: unknown;
      try {
        readJobs(text, yaml);
      } catch (e) {
        found = e;
      }
      expect(found).toBeInstanceOf(TextError);
      expect((found as TextError).line).toBe(line);
    }
    expect(() => readJobs('- {name: a}\n'.repeat(maxJobs + 1), yaml)).toThrow(/At most/);
  });
  it('has each job once, whatever its names', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 8 }), (list) => {
        const text = list.map((n) => JSON.stringify({ name: n })).join('\n');
        if (text === '') return;
        const { jobs, refused } = readJobs(text, yaml);
        expect(jobs.length + refused.length).toBe(list.length);
        expect(new Set(jobs.map((j) => j.name)).size).toBe(jobs.length);
      }),
    );
  });
});

describe('a file', () => {
  it.each([
    ['crontab', '# m h dom mon dow\nMAILTO=ops\n0 2 * * * /usr/bin/backup --full\n@daily /bin/true\n', 'crontab'],
    ['jobs.yaml', '0 2 * * * x', 'jobs'],
    ['jobs', 'name: a\nschedule: 0 2 * * *\n', 'jobs'],
    ['', '*/5 1-3 * jan mon echo a: b', 'crontab'],
    ['x', '{"name": "a"}', 'jobs'],
    ['', '- name: a\n  schedule: every 5m\n', 'jobs'],
  ])('%s %j is %s', (name, text, format) => expect(formatOf(name, text)).toBe(format));
  it('has a limit', () => {
    expect(unreadable(maxBytes + 1, 'x')).toContain('16.0 MB');
    expect(unreadable(3, 'a\0b')).toContain('not a text file');
    expect(unreadable(2, ' \n')).toContain('empty');
    expect(unreadable(2, 'ab')).toBeUndefined();
  });
});
