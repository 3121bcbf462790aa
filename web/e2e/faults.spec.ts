import { call, expect, login, open, place, test } from './fixture';

// What was wrong once.

test('the repeated hour is marked on the timeline', async ({ page }) => {
  const job = await call<{ id: string }>('POST', '/jobs', {
    name: 'e2e-fold', schedule: { cron: '30 2 * * *', timezone: 'Europe/Berlin' }, target: { kind: 'http', config: { url: `${place().targets}/ok` } },
  });
  await call('POST', `/jobs/${job.id}:backfill`, { from: '2026-10-24T00:00:00Z', to: '2026-10-27T00:00:00Z', pace: '0s' });
  await login(page);
  await open(page, `/jobs/${job.id}?zoom=week&from=2026-10-21T22:00:00.000Z`);
  await expect(page.locator('[data-column]', { hasText: '25 Oct 2026, 02:30' })).toContainText('the first of two equal times');
});

test('days of the month view begin at midnight in the zone that is shown', async ({ page, context }) => {
  await context.addCookies([{ name: 'belfry_zone', value: 'mine', url: `${place().url}/ui` }]);
  await login(page);
  await open(page, '/jobs/heartbeat?zoom=month');
  await expect(page.locator('[data-column]').first()).toBeVisible();
  const texts = await page.locator('[data-column] > .sr').allTextContents();
  expect(texts.filter((t) => !/^\d+ \w+ 00:00 to /.test(t)), 'columns that do not begin at midnight in New York').toEqual([]);
});

test('a file of jobs and a crontab are compared before they are applied', async ({ page }) => {
  await login(page);
  await open(page, '/import');
  const hostile = '<img src=x onerror=alert(1)>';
  const target = `{kind: http, config: {url: ${place().targets}/ok}}`;
  const file = [`{name: e2e-imported, schedule: every 1h, description: "${hostile}", target: ${target}}`, `{name: "${hostile}", schedule: never, target: ${target}}`];
  await page.getByLabel('Or paste it').fill(file.map((d) => `- ${d}`).join('\n'));
  await page.getByRole('button', { name: 'Compare' }).click();
  const table = page.getByRole('table', { name: 'What the file would change' });
  await expect(table.getByRole('row', { name: /e2e-imported/ })).toContainText('Create');
  await expect(table.getByRole('row', { name: /onerror/ })).toContainText('Refused');
  await page.getByRole('button', { name: 'Apply 1 change' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Apply' }).click();
  await expect(page.getByText('1 created.')).toBeVisible();
  await page.getByRole('button', { name: 'Another file' }).click();
  await page.getByLabel('Or paste it').fill('# Nightly backup\n30 2 * * * /usr/bin/backup --full\n99 2 * * * /bin/false\n');
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.getByLabel('URL that gets the commands').fill(`${place().targets}/ok`);
  await expect(table.getByRole('row', { name: /^2 / })).toContainText('Create');
  await expect(table.getByRole('row', { name: /^3 / })).toContainText('Refused');
});
