import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatExact, parseExact } from './json';

// JSON.parse passes the source of a number to a reviver in current browsers, and in Node from version 21.
const hasSource = (() => {
  let seen = false;
  JSON.parse('1', ((_k: string, v: unknown, c?: { source?: string }) => { seen = c?.source === '1'; return v; }) as (k: string, v: unknown) => unknown);
  return seen;
})();

describe('JSON with exact numbers', () => {
  it.runIf(hasSource)('keeps what does not fit into a double', () => {
    for (const n of ['9007199254740993', '-1e400', '0.10000000000000000555', '1.0']) expect(formatExact(parseExact(n))).toBe(n);
  });
  it('is the same value', () => {
    fc.assert(fc.property(fc.jsonValue({ noUnicodeString: false }), (v) => {
      expect(JSON.parse(formatExact(parseExact(JSON.stringify(v))))).toEqual(JSON.parse(JSON.stringify(v)));
    }));
  });
});
