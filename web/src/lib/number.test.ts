import { expect, it } from 'vitest';
import { capped, percent, plural, short } from './number';

it('says when a count is capped', () => {
  expect(capped(10_000, true)).toBe('10,000+');
  expect(capped(12)).toBe('12');
});

it.each([
  [0, '0'],
  [999, '999'],
  [1000, '1k'],
  [1250, '1.3k'],
  [50_211, '50k'],
  [1_300_000, '1.3M'],
])('%d is short %s', (n, text) => expect(short(n)).toBe(text));

it('never rounds up to 100 %', () => {
  expect(percent(0.99996)).toBe('99.99 %');
  expect(percent(1)).toBe('100 %');
});

it('counts in words', () => {
  expect(plural(1, 'run')).toBe('1 run');
  expect(plural(1204, 'run')).toBe('1,204 runs');
});
