import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';
import { Trace } from './trace';

it('a trace is a link only if there is a place to look at it', () => {
  const id = '0af7651916cd43dd8448eb211c80319c';
  expect(renderToStaticMarkup(createElement(Trace, { id }))).toBe(`<code>${id}</code>`);
  expect(renderToStaticMarkup(createElement(Trace, { id, url: `https://traces.example.com/${id}?a=1&b=2` }))).toBe(
    `<a href="https://traces.example.com/${id}?a=1&amp;b=2" target="_blank" rel="noreferrer"><code>${id}</code></a>`);
});
