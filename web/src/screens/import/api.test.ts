import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { objectOf } from '../../lib/definition';
import { parseExact } from '../../lib/json';
import { ChangeList } from '../editor/changes';
import { crontabContents, rowOf } from './api';

const job = { line: 7, name: 'a', def: objectOf([]) };

describe('a crontab', () => {
  it('has its jobs on the lines that the server names', () => {
    const { jobs, refused } = crontabContents(
      parseExact('{"jobs":[{"name":"a"},{"name":"b"}],"lines":[2,9],"problems":[{"line":4,"problem":"no command","text":"* *"}]}'),
    );
    expect(jobs.map((j) => [j.line, j.name])).toEqual([
      [2, 'a'],
      [9, 'b'],
    ]);
    expect(refused).toEqual([{ line: 4, name: '', problem: 'no command: * *' }]);
  });
});

describe('a comparison', () => {
  it('says which values are omitted, and how many fields are', () => {
    const row = rowOf(
      parseExact(
        '{"result":"change","fields":[{"field":"queue","before":"a","after":"b"},{"field":"payload","omitted":true}],"more_fields":3}',
      ),
      job,
    );
    expect(row.more).toBe(3);
    expect(row.changes.map((c) => c.omitted ?? false)).toEqual([false, true]);
    const text = renderToStaticMarkup(createElement(ChangeList, { list: row.changes }));
    expect(text).toContain('too large to show');
    expect(text.match(/too large to show/g)).toHaveLength(1);
  });
  it('without such fields has none', () => {
    const row = rowOf(parseExact('{"result":"change","fields":[{"field":"queue","after":"b"}]}'), job);
    expect(row.more).toBeUndefined();
    expect(renderToStaticMarkup(createElement(ChangeList, { list: row.changes }))).not.toContain('too large');
  });
});
