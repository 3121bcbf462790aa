import type { Page } from '@playwright/test';
import { call, expect, keyOf, login, place, test } from './fixture';

type Job = { id: string; version: number; timeout?: string; schedule: unknown; retry?: { max_attempts: number } };

const get = (name: string) => call<Job>('GET', `/jobs/${name}`);

/** The text of a job as the API sends it: numbers are not rounded. */
async function raw(name: string): Promise<string> {
  const { url, key } = place();
  const r = await fetch(`${url}/api/v1/jobs/${name}`, { headers: { Authorization: `Bearer ${key}` } });
  return r.text();
}

async function job(name: string): Promise<Job> {
  return call<Job>('PUT', `/jobs/${name}`, {
    name,
    schedule: { cron: '30 2 * * *', timezone: 'Europe/Berlin' },
    target: { kind: 'noop' },
    retry: { max_attempts: 5 },
  });
}

const edit = (page: Page, id: string) => page.goto(`${place().url}/ui/jobs/${id}/edit`);

test('a job is created in the form, with its schedule in words', async ({ user: page }) => {
  await page.goto(`${place().url}/ui/jobs/new`);
  await page.getByRole('textbox', { name: 'Name' }).fill('edited-new');
  await page.getByLabel('Expression').fill('61 2 * * *');
  await expect(page.getByLabel('Expression')).toHaveAttribute('aria-invalid', 'true');
  await page.getByLabel('Expression').fill('30 2 * * *');
  await page.getByRole('combobox', { name: 'Time zone' }).fill('berlin');
  await page.getByRole('option', { name: 'Europe/Berlin' }).click();
  await expect(page.getByRole('heading', { name: 'At 02:30 every day, Europe/Berlin' })).toBeVisible();
  await expect(page.getByRole('table', { name: 'The next occurrences' }).locator('tbody tr')).toHaveCount(10);
  await expect(page.getByText('02:30 does not exist: runs at 03:00 +02')).toBeVisible();

  // What is missing is said by the server, at its field, and gets the focus.
  await page.getByRole('button', { name: 'Create job' }).first().click();
  await expect(page.getByLabel('URL')).toBeFocused();
  await page.getByLabel('URL').fill(`${place().targets}/ok`);
  const payload = page.getByLabel('Sent with each run');
  await payload.fill('{\n  "account": 9007199254740993,\n}');
  await expect(page.getByText('line 3, column 1').first()).toBeVisible();
  await payload.fill('{"account": 9007199254740993}');
  await page.keyboard.press('Control+s');
  await expect(page).toHaveURL(/\/ui\/jobs\/job_/);
  expect(await raw('edited-new')).toContain('9007199254740993');
});

test('form and YAML are two views of one job', async ({ user: page }) => {
  const j = await job('edited-yaml');
  await edit(page, j.id);
  await page.getByLabel('Maximum number of attempts').fill('7');
  await expect(page.getByRole('row', { name: /retry.max_attempts/ })).toContainText('7');
  await page.getByText('YAML', { exact: true }).click();
  const text = page.getByRole('textbox', { name: 'Definition as YAML' });
  await expect(text).toHaveValue(/max_attempts: 7/);
  const yaml = await text.inputValue();
  await text.fill(yaml + 'timeout: [');
  await expect(page.getByText(/^Line \d+: /)).toBeVisible();
  await text.fill(`# kept\n${yaml}timeout: 90s\n`);
  await page.getByText('Form', { exact: true }).click();
  await expect(page.getByLabel('Timeout', { exact: true })).toHaveValue('90s');
  await page.getByText('YAML', { exact: true }).click();
  await expect(text).toHaveValue(/^# kept/);
  await page.getByRole('button', { name: 'Save version 2' }).first().click();
  await expect(page).toHaveURL(new RegExp(`/ui/jobs/${j.id}$`));
  const saved = await get('edited-yaml');
  expect([saved.version, saved.timeout, saved.retry?.max_attempts]).toEqual([2, '1m30s', 7]);
});

test('a save that changes nothing says so', async ({ user: page }) => {
  const j = await job('edited-same');
  await edit(page, j.id);
  await expect(page.getByLabel('Expression')).toHaveValue('30 2 * * *');
  await page.getByRole('button', { name: 'Save version 2' }).first().click();
  await expect(page.getByText('Nothing has changed: edited-same stays at version 1.')).toBeVisible();
});

test('two people who edit a job see each other', async ({ user: page }) => {
  const j = await job('edited-twice');
  await edit(page, j.id);
  await page.getByLabel('Maximum number of attempts').fill('9');
  await call('PATCH', '/jobs/edited-twice', { timeout: '45s' });
  await page.getByRole('button', { name: 'Save version 2' }).first().click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('table', { name: 'Their changes' })).toContainText('45s');
  await expect(dialog.getByRole('table', { name: 'Your changes' })).toContainText('9');
  await dialog.getByRole('button', { name: 'Keep both changes' }).click();
  await expect(page).toHaveURL(new RegExp(`/ui/jobs/${j.id}$`));
  const saved = await get('edited-twice');
  expect([saved.version, saved.timeout, saved.retry?.max_attempts]).toEqual([3, '45s', 9]);
});

test('leaving with changes asks', async ({ user: page }) => {
  const j = await job('edited-left');
  await edit(page, j.id);
  await page.getByLabel('Expression').fill('0 3 * * *');
  await page.keyboard.press('Tab');
  await page.getByRole('link', { name: 'Cancel' }).click();
  await expect(page.getByRole('dialog')).toContainText('Leave without saving?');
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await expect(page.getByLabel('Expression')).toHaveValue('0 3 * * *');
  await page.getByRole('link', { name: 'Cancel' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Leave' }).click();
  await expect(page).toHaveURL(new RegExp(`/ui/jobs/${j.id}$`));
  expect((await get('edited-left')).version).toBe(1);
});

test('a viewer is told which role the editor needs', async ({ page }) => {
  await keyOf('viewer');
  await login(page, 'viewer');
  for (const path of ['/jobs/new', '/jobs/nightly-report/edit', '/import']) {
    await page.goto(`${place().url}/ui${path}`);
    await expect(page.getByText('with the role editor. Your key has the role viewer.')).toBeVisible();
  }
});
