import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it, vi } from 'vitest';
import { now } from '../lib/time';
import { api, snapshot, text } from './client';
import { usePages, type PageOf } from './pages';

const node = vi.hoisted(() => {
  const state = { date: 0, reads: [] as ((signal: AbortSignal) => Promise<unknown>)[] };
  const Real = globalThis.Request;
  globalThis.Request = class extends Real {
    constructor(url: string | URL | Request, init?: RequestInit) {
      super(typeof url === 'string' ? new URL(url, 'http://node.example') : url, init);
    }
  };
  globalThis.fetch = async () => {
    const headers = { Date: new Date(state.date).toUTCString(), 'Content-Type': 'application/json' };
    return new Response('{}', { headers });
  };
  return state;
});

vi.mock('./live', () => ({
  useData: (o: { get: (signal: AbortSignal) => Promise<unknown> }) => {
    node.reads.push(o.get);
    return { data: undefined, isPlaceholderData: false };
  },
}));

it('each answer tells the time of the node', async () => {
  for (const [name, skew, read] of [
    ['snapshot', 600_000, () => snapshot('/api/v1/overview')],
    ['text', -600_000, () => text('/api/v1/jobs/x')],
    ['client', 300_000, () => api.GET('/api/v1/self')],
  ] as const) {
    node.date = Date.now() + skew;
    await read();
    expect(Math.abs(now() - node.date), name).toBeLessThan(5000);
  }
});

it('the first page of a list is read on until it is full', async () => {
  const pages: Record<string, PageOf<number>> = { '': { items: [1], next_page_token: 'a' }, a: { items: [2, 3], next_page_token: 'b' } };
  function List() {
    usePages<number>({ key: ['numbers'], get: async (token) => pages[token ?? '']!, id: String, size: 3 });
    return null;
  }
  renderToStaticMarkup(createElement(List));
  expect(await node.reads[0]!(new AbortController().signal)).toEqual({ items: [1, 2, 3], next_page_token: 'b' });
});
