import { call, expect, login, place, test } from './fixture';

// Queues, cluster, operations, audit and settings: what an operator and an admin do there.

const at = (path: string) => `${place().url}/ui${path}`;

test('a queue without a worker says which handler waits', async ({ user: page }) => {
  await page.goto(at('/queues'));
  await expect(page.getByText('No worker asks for handler media.thumbnail.')).toBeVisible();
  await page.goto(at('/queues/etl'));
  await expect(page.getByRole('table', { name: 'Workers' }).getByText('warehouse.load').first()).toBeVisible();
});

test('limits say what they replace, and a pause asks for a note', async ({ user: page }) => {
  await call('POST', '/queues', { name: 'operate', max_running: 10, rate: '100/s' });
  await page.goto(at('/queues/operate'));
  await page.getByRole('button', { name: 'Limits…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: 'Maximum running' }).fill('40');
  await dialog.getByRole('textbox', { name: 'Rate' }).fill('');
  await expect(dialog.getByRole('row', { name: 'Rate 100/s no limit' })).toBeVisible();
  await dialog.getByRole('button', { name: 'Replace the limits' }).click();
  await expect(dialog).toBeHidden();
  expect(await call('GET', '/queues/operate')).toMatchObject({ max_running: 40 });
  await page.getByRole('button', { name: 'Pause…' }).click();
  await dialog.getByRole('textbox', { name: 'Note' }).fill('the vendor is down');
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await expect(page.getByText('“the vendor is down”')).toBeVisible();
  await page.getByRole('button', { name: 'Resume' }).click();
  await expect(page.getByRole('button', { name: 'Pause…' })).toBeVisible();
});

test('arrow keys move in the grid of partitions, and its table says the same', async ({ user: page }) => {
  await page.goto(at('/cluster?partition=17'));
  await page.getByRole('gridcell', { name: /^Partition 17,/ }).focus();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('gridcell', { name: /^Partition 33,/ })).toBeFocused();
  await expect(page).toHaveURL(/partition=33/);
  await page.getByText('Show as table').click();
  const rows = page.getByRole('region', { name: 'Partitions as a table' }).getByRole('row');
  await expect(rows).toHaveCount(257);
});

test('a key is shown once, and only after "I stored it" the dialog ends', async ({ user: page }) => {
  await page.goto(at('/settings?tab=keys'));
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('shown once');
  await page.getByRole('button', { name: 'Create' }).click();
  const key = await page.getByTestId('new-key').textContent();
  expect(key).toMatch(/^bfk_/);
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('new-key')).toBeVisible();
  await page.getByLabel('I stored it').check();
  await page.getByRole('button', { name: 'Done' }).click();
  await expect(page.getByTestId('new-key')).toBeHidden();
  expect(await page.content()).not.toContain(key!);
  await page.getByRole('button', { name: 'Revoke shown once' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await expect(page.getByRole('row', { name: /shown once/ })).toContainText('Revoked');
});

test('the audit log is filtered by the URL, shows changed fields, and verifies its chain', async ({ user: page }) => {
  await page.goto(at('/audit?action=job.update'));
  await page.getByRole('row', { name: /nightly-report/ }).first().click();
  await expect(page).toHaveURL(/entry=\d+/);
  await expect(page.getByRole('table', { name: 'Changes' }).getByRole('row', { name: /^timeout/ })).toBeVisible();
  await page.getByRole('button', { name: 'Verify the chain' }).click();
  await expect(page.getByText(/No entry was changed, of/)).toBeVisible();
  await expect(page.getByRole('button', { name: 'Copy the newest hash' })).toBeVisible();
});

test('a viewer sees no action that it may not do', async ({ page }) => {
  await login(page, 'viewer');
  await page.goto(at('/queues/etl'));
  await expect(page.getByRole('table', { name: 'Workers' })).toBeVisible();
  await expect(page.getByRole('button', { name: /Pause|Limits/ })).toHaveCount(0);
  await page.goto(at('/settings'));
  await expect(page.getByRole('tab', { name: 'Keys' })).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'New secret' })).toHaveCount(0);
  await page.goto(at('/audit'));
  await expect(page.getByText('The audit log needs the role admin.')).toBeVisible();
});

test('a redrive shows what it acts on, by name', async ({ user: page }) => {
  await page.goto(at('/dead-letters'));
  await page.getByRole('button', { name: 'Redrive…' }).first().click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByText('Such as')).toBeVisible();
  await expect(dialog.locator('dd', { hasText: /, due|due / }).first()).toContainText(/^[a-z-]+\s*due \d/);
});

test('a spread changes the jobs of its minute only, and its operation can be undone', async ({ user: page }) => {
  const jobs = ['a', 'b', 'c', 'd', 'e', 'f'].map((x) => ({
    name: `spread-${x}`, schedule: { cron: '0 4 * * *' }, target: { kind: 'noop' }, labels: { spread: 'yes' },
  }));
  await call('POST', '/jobs:bulk', [...jobs, { ...jobs[0], name: 'spread-later', schedule: { cron: '0 5 * * *' } }].map((j) => JSON.stringify(j)).join('\n'),
    'application/x-ndjson');
  const four = new Date();
  four.setUTCHours(4, 0, 0, 0);
  if (four.getTime() < Date.now() + 120_000) four.setUTCDate(four.getUTCDate() + 1);
  await page.goto(at(`/load?at=${four.toISOString()}`));
  await page.getByRole('button', { name: 'Spread these…' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByText('Spread the jobs of 04:00 UTC')).toBeVisible();
  await dialog.getByRole('button', { name: /^Spread \d+ jobs?$/ }).click();
  await expect(page).toHaveURL(/operations\/op_/);
  await expect(page.getByText('Finished', { exact: false }).first()).toBeVisible();
  const schedules = async () => Promise.all([...jobs.map((j) => j.name), 'spread-later', 'heartbeat'].map(async (n) =>
    (await call<{ version: number }>('GET', `/jobs/${n}`)).version));
  expect(await schedules()).toEqual([2, 2, 2, 2, 2, 2, 1, 1]);
  await page.getByRole('button', { name: 'Undo…' }).click();
  await dialog.getByRole('button', { name: /^Restore \d+ jobs?$/ }).click();
  await expect(page.getByRole('heading', { name: /^Undo the change/ })).toBeVisible();
  await expect(page.getByText('Finished', { exact: false }).first()).toBeVisible();
  expect(await schedules()).toEqual([3, 3, 3, 3, 3, 3, 1, 1]);
  expect((await call<{ schedule: { cron: string } }>('GET', '/jobs/spread-a')).schedule.cron).toBe('0 4 * * *');
});
