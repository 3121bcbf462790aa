import fc from 'fast-check';
import { expect, test } from 'vitest';
import { diffLines } from './diff';

const text = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 1, maxLength: 12 }).map((x) => x.join('\n'));

test('the difference contains both texts, line by line', () => {
  fc.assert(fc.property(text, text, (before, after) => {
    const lines = diffLines(before, after);
    expect(lines.filter((l) => l.kind !== 'added').map((l) => l.text).join('\n')).toBe(before);
    expect(lines.filter((l) => l.kind !== 'removed').map((l) => l.text).join('\n')).toBe(after);
    expect(lines.filter((l) => l.before).map((l) => l.before)).toEqual(before.split('\n').map((_, i) => i + 1));
  }));
});

test('equal texts have no change', () => {
  expect(diffLines('a\nb', 'a\nb').every((l) => l.kind === 'same')).toBe(true);
});
