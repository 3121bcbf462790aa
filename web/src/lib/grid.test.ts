import fc from 'fast-check';
import { expect, it } from 'vitest';
import { moveInGrid } from './grid';

const keys = ['ArrowRight', 'ArrowLeft', 'ArrowDown', 'ArrowUp', 'Home', 'End', 'PageUp', 'PageDown'];

it('every key stays in the grid', () => {
  fc.assert(fc.property(fc.nat(255), fc.constantFrom(...keys), (at, key) => {
    const to = moveInGrid(at, key, 16, 256)!;
    expect(to).toBeGreaterThanOrEqual(0);
    expect(to).toBeLessThan(256);
  }));
});

it('vertical keys keep the column, and arrows lead back', () => {
  fc.assert(fc.property(fc.nat(255), (at) => {
    for (const key of ['ArrowDown', 'ArrowUp', 'PageUp', 'PageDown']) expect(moveInGrid(at, key, 16, 256)! % 16).toBe(at % 16);
    if (at < 240) expect(moveInGrid(moveInGrid(at, 'ArrowDown', 16, 256)!, 'ArrowUp', 16, 256)).toBe(at);
  }));
});

it('other keys do not move', () => expect(moveInGrid(3, 'a', 16, 256)).toBeNull());
