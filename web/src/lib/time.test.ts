import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clock, date, dateOfYear, duration, localParts, offset, parseDuration, relative } from './time';

const at = Date.UTC(2026, 2, 29, 0, 30);

describe('an instant in a zone', () => {
  it('has the offset of the zone at that instant', () => {
    expect(offset(at, 'Europe/Berlin')).toBe('+01');
    expect(offset(at + 3600_000, 'Europe/Berlin')).toBe('+02'); // clocks have changed
    expect(offset(at, 'Asia/Kolkata')).toBe('+05:30');
    expect(offset(at, 'America/New_York')).toBe('-04');
    expect(offset(at, 'UTC')).toBe('UTC');
  });
  it('has the clock of the zone', () => {
    expect(clock(at, 'Europe/Berlin')).toBe('01:30');
    expect(clock(at + 3600_000, 'Europe/Berlin')).toBe('03:30');
    expect(date(at, 'America/New_York')).toBe('28 Mar');
    const eve = Date.parse('2027-01-01T04:30:00Z');
    expect(dateOfYear(eve, 'America/New_York', at)).toBe('31 Dec');
    expect(dateOfYear(eve, 'UTC', at)).toBe('1 Jan 2027');
  });
  it('is shown in UTC if the browser does not know the zone', () => {
    expect(clock(at, 'Mars/Base')).toBe('00:30');
  });
});

describe('a duration', () => {
  it.each([
    [0, '0 ms'], [4, '4 ms'], [999, '999 ms'], [1500, '1.5 s'], [12_300, '12 s'], [60_000, '1 min'], [200_000, '3 min 20 s'],
    [3_600_000, '1 h'], [7_500_000, '2 h 5 min'], [270_000_000, '3 d 3 h'],
  ])('%d is %s', (ms, text) => expect(duration(ms)).toBe(text));

  it('is never written with a unit that is too small', () => {
    fc.assert(fc.property(fc.nat(400 * 86_400_000), (ms) => {
      for (const n of duration(ms).match(/\d+/g) ?? []) expect(Number(n)).toBeLessThan(1000);
    }));
  });

  it.each([['90s', 90_000], ['1h30m', 5_400_000], ['250ms', 250], ['7d', 604_800_000], ['', NaN], ['5', NaN], ['x', NaN]])(
    'is read from %s', (text, ms) => expect(parseDuration(text)).toBe(ms));
});

describe('relative', () => {
  it.each([[0, 'now'], [4500, 'in 4 s'], [-59_000, '59 s ago'], [-3 * 3600_000, '3 h ago'], [30 * 86_400_000, 'in 30 d']])(
    '%d is %s', (d, text) => expect(relative(d + 1000, 1000)).toBe(text));
});

describe('a local time of the server', () => {
  it('is shown as it was written', () => {
    expect(localParts('2026-03-29T03:00:00+02:00')).toEqual({ date: '2026-03-29', time: '03:00', seconds: '', offset: '+02' });
    expect(localParts('2026-01-01T00:00:30+05:30')).toEqual({ date: '2026-01-01', time: '00:00', seconds: ':30', offset: '+05:30' });
    expect(localParts('2026-01-01T00:00:00Z').offset).toBe('UTC');
  });
});
