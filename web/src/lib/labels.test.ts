import fc from 'fast-check';
import { expect, test } from 'vitest';
import { joinList, splitList } from './labels';

test('a list survives the search parameter, whatever its values contain', () => {
  fc.assert(fc.property(fc.array(fc.string({ minLength: 1 })), (values) => {
    expect(splitList(joinList(values))).toEqual(values);
  }));
});
