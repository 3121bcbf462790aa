import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { call, expect, login, place, test } from './fixture';

// Pictures of every screen, for people. They run only when SHOTS names a directory.

const dir = process.env.SHOTS ? resolve(process.env.SHOTS) : '';

test.skip(!dir, 'SHOTS is not set');

for (const theme of ['light', 'dark'] as const) {
  for (const [size, viewport] of Object.entries({ 1440: { width: 1440, height: 900 }, 390: { width: 390, height: 844 } })) {
    test(`${theme} ${size}`, async ({ page, context }) => {
      test.setTimeout(300_000);
      mkdirSync(dir, { recursive: true });
      await context.addCookies([{ name: 'belfry_theme', value: theme, url: place().url }]);
      await page.setViewportSize(viewport);
      await login(page);
      const job = await call<{ id: string }>('GET', '/jobs/nightly-report');
      const probe = await call<{ id: string }>('GET', '/jobs/sla-probe');
      const letters = await call<{ items: { run: string }[] }>('GET', '/dead-letters?page_size=1');
      const paths: Record<string, string> = {
        overview: '/', jobs: '/jobs', job: `/jobs/${job.id}`, 'job-frequent': `/jobs/${probe.id}`, 'job-versions': `/jobs/${job.id}?tab=versions`,
        editor: `/jobs/${job.id}/edit`, new: '/jobs/new', import: '/import', runs: '/runs', run: `/runs/${letters.items[0]!.run}`, 'dead-letters': '/dead-letters',
        load: '/load', queues: '/queues', queue: '/queues/media', operations: '/operations', cluster: '/cluster', audit: '/audit', settings: '/settings',
      };
      for (const [name, path] of Object.entries(paths)) {
        await page.goto(`${place().url}/ui${path}`);
        await expect(page.locator('[data-state="loading"]')).toHaveCount(0);
        await page.evaluate(() => document.fonts.ready);
        await page.waitForLoadState('networkidle').catch(() => {});
        await page.screenshot({ path: join(dir, `${name}-${theme}-${size}.png`) });
      }
    });
  }
}
