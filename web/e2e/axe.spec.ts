import axe from 'axe-core';
import type { Page } from '@playwright/test';
import { call, expect, login, place, test } from './fixture';

// Every screen in every state, light and dark: no finding of axe from WCAG 2.0 A to 2.2 AA.

const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

async function check(page: Page, what: string): Promise<void> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async (runOnly) => {
    const { axe: a } = window as unknown as { axe: { run: (d: Document, o: object) => Promise<{ violations: { id: string; help: string; nodes: { html: string }[] }[] }> } };
    const r = await a.run(document, { runOnly, resultTypes: ['violations'] });
    return r.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')}`);
  }, tags);
  expect.soft(found, what).toEqual([]);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect.soft(overflow, `${what}: the page scrolls sideways`).toBeLessThanOrEqual(0);
}

/** Screens by name. Ids are looked up in the world. */
async function screens(): Promise<Record<string, string>> {
  const job = await call<{ id: string }>('GET', '/jobs/nightly-report');
  const letters = await call<{ items: { run: string }[] }>('GET', '/dead-letters?page_size=1');
  return {
    overview: '/', jobs: '/jobs', job: `/jobs/${job.id}`, 'job definition': `/jobs/${job.id}?tab=definition`, 'job versions': `/jobs/${job.id}?tab=versions`,
    'new job': '/jobs/new', 'edit job': `/jobs/${job.id}/edit`, import: '/import', runs: '/runs', 'ended runs': '/runs?state=failed',
    run: `/runs/${letters.items[0]!.run}`, 'dead letters': '/dead-letters', load: '/load', queues: '/queues', queue: '/queues/media',
    operations: '/operations', cluster: '/cluster', audit: '/audit', settings: '/settings',
  };
}

const themes = ['light', 'dark'] as const;
const sizes = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

/** The screen shows its content, or a state, and is no longer loading. */
async function settled(page: Page): Promise<void> {
  await expect(page.locator('[data-state="loading"]')).toHaveCount(0);
  await page.evaluate(() => document.fonts.ready);
}

for (const theme of themes) {
  for (const [size, viewport] of Object.entries(sizes)) {
    test(`every screen, full, ${theme}, ${size}`, async ({ page, context }) => {
      await context.addCookies([{ name: 'belfry_theme', value: theme, url: place().url }]);
      await page.setViewportSize(viewport);
      await login(page);
      for (const [name, path] of Object.entries(await screens())) {
        await test.step(name, async () => {
          await page.goto(`${place().url}/ui${path}`);
          await settled(page);
          await check(page, `${name}, ${theme}, ${size}`);
        });
      }
    });
  }

  test(`every screen, error and loading, ${theme}`, async ({ page, context }) => {
    await context.addCookies([{ name: 'belfry_theme', value: theme, url: place().url }]);
    await login(page);
    const all = await screens();
    let mode: 'error' | 'loading' = 'error';
    const waiting: (() => void)[] = [];
    await page.route(/\/api\/v1\/(?!session)/, async (route) => {
      if (mode === 'loading') {
        await new Promise<void>((done) => waiting.push(done));
        await route.abort().catch(() => {});
        return;
      }
      await route.fulfill({
        status: 400, contentType: 'application/problem+json',
        body: JSON.stringify({ status: 400, code: 'bad_request', title: 'Bad request', detail: 'The test made this fail.', request_id: 'req-1' }),
      });
    });
    for (const [name, path] of Object.entries(all)) {
      await test.step(`${name}: error`, async () => {
        mode = 'error';
        await page.goto(`${place().url}/ui${path}`);
        await expect(page.locator('main')).toBeVisible();
        await settled(page);
        await check(page, `${name}, error, ${theme}`);
      });
    }
    mode = 'loading';
    for (const [name, path] of Object.entries(all)) {
      await test.step(`${name}: loading`, async () => {
        await page.goto(`${place().url}/ui${path}`);
        await expect(page.locator('main')).toBeVisible();
        await check(page, `${name}, loading, ${theme}`);
        for (const end of waiting.splice(0)) end();
      });
    }
  });

  test(`every screen, as a viewer, ${theme}`, async ({ page, context }) => {
    await context.addCookies([{ name: 'belfry_theme', value: theme, url: place().url }]);
    await login(page, 'viewer');
    for (const [name, path] of Object.entries(await screens())) {
      await test.step(name, async () => {
        await page.goto(`${place().url}/ui${path}`);
        await settled(page);
        await check(page, `${name}, viewer, ${theme}`);
      });
    }
  });
}

test('the login page', async ({ page }) => {
  await page.goto(`${place().url}/ui/`);
  await expect(page.getByRole('button', { name: 'Log in' })).toBeVisible();
  await check(page, 'login');
});
