import { call, expect, keyOf, login, open, place, test } from './fixture';

test('an operation whose answer was lost is started once', async ({ user: page }) => {
  for (const name of ['twice-a', 'twice-b']) {
    await call('PUT', `/jobs/${name}`, { name, schedule: 'every 24h', target: { kind: 'noop' }, labels: { twice: 'yes' } });
  }
  await page.goto(`${place().url}/ui/jobs?label=twice%3Dyes`);
  await page.getByRole('checkbox', { name: 'Select all rows shown' }).check();
  const keys: string[] = [];
  let lost = 0;
  await page.route('**/api/v1/jobs:pause', async (route) => {
    const key = route.request().headers()['idempotency-key'];
    if (!key) return route.continue(); // the count
    keys.push(key);
    if (lost++ > 0) return route.continue();
    await route.fetch(); // the server has it, and the browser hears of something else
    await route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{"code":"unavailable","detail":"lost"}' });
  });
  await page.getByRole('button', { name: /^Pause/ }).first().click();
  const act = page.getByRole('dialog').getByRole('button', { name: /^Pause 2 jobs/ });
  await act.click();
  await expect(page.getByRole('dialog').getByRole('alert')).toBeVisible();
  await act.click();
  await expect(page).toHaveURL(/\/ui\/operations\/op_/);
  expect(keys[0]).toBe(keys[1]);
  const done = await call<{ items: { kind: string; count: number }[] }>('GET', '/operations');
  expect(done.items.filter((o) => o.kind === 'pause' && o.count === 2)).toHaveLength(1);
});

test('a tab follows when another one logs in as another user', async ({ page, context }) => {
  await login(page);
  await open(page, '/jobs');
  await expect(page.getByRole('link', { name: 'Audit' })).toBeVisible();
  const other = await context.newPage();
  await other.goto(`${place().url}/ui/settings?tab=me`);
  await other.getByRole('button', { name: 'Log out', exact: true }).click();
  await other.getByLabel('API key').fill(await keyOf('viewer'));
  await other.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByRole('link', { name: 'Audit' })).toHaveCount(0);
});
