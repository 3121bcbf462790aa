import { expect, it } from 'vitest';
import { cutShort, fullPage, type PageOf } from './pages';

const page = (from: number, n: number, next?: string): PageOf<number> => ({
  items: Array.from({ length: n }, (_, i) => from + i), ...(next ? { next_page_token: next } : {}),
});

it('reads on until the page is full', async () => {
  const pages: Record<string, PageOf<number>> = { '': page(0, 1, 'a'), a: page(1, 0, 'b'), b: page(1, 3, 'c'), c: page(4, 9, 'd') };
  const got = await fullPage(async (t) => pages[t ?? '']!, undefined, 4, () => 0);
  expect(got).toEqual(page(0, 4, 'c'));
});

it('stops at the end of the list, and after two seconds', async () => {
  expect(await fullPage(async () => page(0, 1), undefined, 50, () => 0)).toEqual(page(0, 1));
  let time = 0;
  const slow = await fullPage(async () => { time += 1500; return page(0, 1, 'x'); }, undefined, 50, () => time);
  expect(slow.items).toHaveLength(2);
});

it('keeps a longer page, unless the list became shorter', () => {
  expect(cutShort(page(0, 50, 'a'), page(0, 1, 'b'))).toBe(true);
  expect(cutShort(page(0, 50, 'a'), page(0, 50, 'b'))).toBe(false);
  expect(cutShort(page(0, 50, 'a'), page(0, 1))).toBe(false);
});
