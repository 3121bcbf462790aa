import fc from 'fast-check';
import { expect, test } from 'vitest';
import { plainText } from './ansi';

test('colours, titles and movements are removed, the text stays', () => {
  expect(plainText('\u001b[1;31mred\u001b[0m text')).toBe('red text');
  expect(plainText('\u001b]0;title\u0007a\u001b[2Kb')).toBe('ab');
  expect(plainText('10 %\r20 %\r100 %\ndone\r\n')).toBe('100 %\ndone\n');
  expect(plainText('tab\tstays\n')).toBe('tab\tstays\n');
});

test('no control character is left but line breaks and tabs', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => {
    // oxlint-disable-next-line no-control-regex
    expect(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(plainText(text))).toBe(false);
  }));
});
