import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blockedBy, emptyForm, expiresSoon, queuesOf, requestOf, stateOf, type Key } from './keys';

const now = Date.parse('2026-03-30T12:00:00Z');
const key = (more: Partial<Key>): Key => ({
  id: 'key_1',
  name: 'ci',
  role: 'viewer',
  prefix: 'bfk_a',
  created_by: 'x',
  created_at: '',
  ...more,
});

describe('the state of a key', () => {
  it('revoked wins over expired', () => {
    expect(stateOf(key({ revoked_at: '2026-01-01T00:00:00Z', expires_at: '2020-01-01T00:00:00Z' }), now)).toBe('revoked');
    expect(stateOf(key({ expires_at: '2026-03-30T11:59:59Z' }), now)).toBe('expired');
    expect(stateOf(key({}), now)).toBe('active');
  });
  it('soon means within a week, and only for keys that work', () => {
    expect(expiresSoon(key({ expires_at: '2026-04-02T00:00:00Z' }), now)).toBe(true);
    expect(expiresSoon(key({ expires_at: '2026-06-02T00:00:00Z' }), now)).toBe(false);
    expect(expiresSoon(key({ expires_at: '2026-03-01T00:00:00Z' }), now)).toBe(false);
  });
});

describe('the form of a key', () => {
  it('sends queues of a worker only', () => {
    expect(requestOf({ ...emptyForm, name: ' ci ', queues: 'a b' })).toEqual({ name: 'ci', role: 'viewer', expires_in: '90d' });
    expect(requestOf({ name: 'w', role: 'worker', queues: 'a, b a', expires: '' })).toEqual({
      name: 'w',
      role: 'worker',
      queues: ['a', 'b'],
    });
  });
  it('is blocked until it can be sent', () => {
    expect(blockedBy(emptyForm)).toBeDefined();
    expect(blockedBy({ ...emptyForm, name: 'w', role: 'worker' })).toBeDefined();
    expect(blockedBy({ ...emptyForm, name: 'w', role: 'worker', queues: 'q' })).toBeUndefined();
  });
  it('queues are distinct and not empty', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', ' ', ',', '\n')), (parts) => {
        const q = queuesOf(parts.join(' '));
        expect(new Set(q).size).toBe(q.length);
        expect(q).not.toContain('');
      }),
    );
  });
});
