import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compactExact, equalExact, formatExact, parseExact, TextError } from './json';

const numbers = ['9007199254740993', '-1e400', '0.10000000000000000555', '1.0', '-0', '1E+2'];

describe('JSON with exact numbers', () => {
  it.each(numbers)('keeps %s', (n) => {
    expect(formatExact(parseExact(n))).toBe(n);
    expect(compactExact(parseExact(`{"a":[${n}]}`))).toBe(`{"a":[${n}]}`);
  });
  it('is the same value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false, maxDepth: 2 }), (v) => {
        const text = JSON.stringify(JSON.parse(JSON.stringify(v))); // -0 becomes 0
        for (const write of [formatExact, compactExact]) {
          const back = write(parseExact(text));
          if (JSON.stringify(JSON.parse(back)) !== text || !equalExact(parseExact(back), parseExact(text)))
            throw new Error(`${text} became ${back}`);
        }
      }),
    );
  });
  it('accepts and refuses what JSON.parse does, but for keys that are there twice', () => {
    const piece = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '"b"',
      '1',
      '01',
      '.5',
      'true',
      'null',
      ' ',
      '\n',
      '"\\u00e"',
      '"\\n"',
      '-',
      'e5',
      "'",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 9 }), (parts) => {
        const text = parts.join('');
        let valid = true;
        try {
          JSON.parse(text);
        } catch {
          valid = false;
        }
        let mine = true;
        try {
          parseExact(text);
        } catch (e) {
          mine = e instanceof TextError && e.message.includes('twice');
        }
        if (mine !== valid) throw new Error(text);
      }),
      { numRuns: 2000 },
    );
  });
  it('keeps keys that name the prototype', () => {
    expect(compactExact(parseExact('{"__proto__":{"x":1},"constructor":2}'))).toBe('{"__proto__":{"x":1},"constructor":2}');
  });
  it.each([
    ['{\n  "a": 1,\n  b: 2\n}', 3, 3],
    ['{"a": 1,\n "a": 2}', 2, 2],
    ['', 1, 1],
    ['[1,\n2', 2, 2],
    ['"x', 1, 1],
    ['{"a" 1}', 1, 6],
    ['1 2', 1, 3],
  ])('names the line of what is wrong with %j', (text, line, column) => {
    let found: unknown;
    try {
      parseExact(text);
    } catch (e) {
      found = e;
    }
    expect(found).toBeInstanceOf(TextError);
    expect([(found as TextError).line, (found as TextError).column]).toEqual([line, column]);
  });
});
