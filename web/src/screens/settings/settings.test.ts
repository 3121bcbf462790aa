import fc from 'fast-check';
import { expect, it } from 'vitest';
import { friendly, settingOf } from './settings';

it('durations of Go are readable', () => {
  expect(friendly('720h0m0s')).toBe('30 d');
  expect(friendly('1m0s')).toBe('1 min');
  expect(friendly('15s')).toBe('15 s');
  expect(friendly('25h30m0s')).toBe('25 h 30 min');
  expect(friendly('0s')).toBe('0 s');
  expect(friendly('forever')).toBe('forever');
});

it('every whole duration has a text', () => {
  fc.assert(fc.property(fc.nat(2000), fc.nat(59), fc.nat(59), (h, m, s) => {
    expect(friendly(`${h}h${m}m${s}s`)).toMatch(/^\d/);
  }));
});

it('nodes that differ are listed apart', () => {
  expect(settingOf([{ keep_history: '720h0m0s' }, { keep_history: '720h0m0s' }], 'keep_history')).toBe('30 d');
  expect(settingOf([{ keep_history: '720h0m0s' }, { keep_history: '24h0m0s' }], 'keep_history')).toBe('30 d or 24 h, nodes differ');
  expect(settingOf([], 'keep_history')).toBe('unknown');
});
