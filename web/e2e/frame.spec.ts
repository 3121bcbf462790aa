import { chromium } from '@playwright/test';
import config from '../playwright.config';
import { expect, login, open, place, test } from './fixture';

const launchOptions = config.use!.launchOptions!;

test('the printed URL logs in once', async ({ page, browser }) => {
  const { login: url } = place() as unknown as { login: string };
  await page.goto(url);
  await expect(page.getByRole('navigation', { name: 'Main', exact: true })).toBeVisible();
  expect(page.url()).not.toContain('code=');
  const other = await browser.newPage();
  await other.goto(url);
  await expect(other.getByRole('alert')).toBeVisible();
  await expect(other.getByRole('button', { name: 'Log in' })).toBeVisible();
  await other.close();
});

test('a key logs in, and no storage of the browser holds it', async ({ page, context }) => {
  await page.goto(`${place().url}/ui/`);
  await page.getByLabel('API key').fill(place().key);
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.locator('main#content')).toBeVisible();
  const key = place().key;
  const stored = await page.evaluate(() => JSON.stringify({ ...localStorage }) + JSON.stringify({ ...sessionStorage }) + document.cookie);
  expect(stored).not.toContain(key.slice(4, 20));
  for (const c of await context.cookies()) {
    expect(c.value).not.toContain(key.slice(4, 20));
    if (c.name.includes('belfry') && !/^belfry_(theme|zone|keys)$/.test(c.name)) {
      expect(c.httpOnly).toBe(true);
      expect(c.sameSite).toBe('Strict');
    }
  }
});

test('a wrong key and a worker key are refused', async ({ page }) => {
  await page.goto(`${place().url}/ui/`);
  await page.getByLabel('API key').fill('bfk_wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByRole('alert')).toBeVisible();
});

test('logging out ends the session', async ({ user: page }) => {
  await page.getByRole('button', { name: /Menu of the user$/ }).click();
  await page.getByRole('menuitem', { name: 'Log out' }).click();
  await expect(page.getByLabel('API key')).toBeVisible();
  await page.reload();
  await expect(page.getByLabel('API key')).toBeVisible();
});

test('keys move between screens, and are dead in inputs', async ({ user: page }) => {
  await page.keyboard.press('g');
  await page.keyboard.press('j');
  await expect(page).toHaveURL(/\/ui\/jobs/);
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /Find/ }).fill('g o');
  await expect(page).toHaveURL(/\/ui\/jobs/);
  await page.keyboard.press('Escape');
  await expect(page.getByRole('combobox', { name: /Find/ })).toHaveCount(0);
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog')).toBeVisible();
});

test('the palette finds a job by a part of its name', async ({ user: page }) => {
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /Find/ }).fill('nightly');
  await page.getByRole('option', { name: /nightly-report/ }).click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('nightly-report');
});

test('the theme survives a reload without a flash', async ({ user: page }) => {
  await page.getByRole('button', { name: 'Dark theme' }).click();
  const first = await page.request.get(`${place().url}/ui/`);
  expect(await first.text()).toContain('data-mantine-color-scheme="dark"');
});

test('a viewer sees no audit log in the navigation', async ({ page }) => {
  await login(page, 'viewer');
  await open(page, '/');
  await expect(page.getByRole('link', { name: 'Settings' })).toBeVisible();
  await expect(page.getByRole('link', { name: 'Audit' })).toHaveCount(0);
  await page.keyboard.press('g');
  await page.keyboard.press('a');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /Find/ }).fill('o');
  await expect(page.getByRole('option', { name: 'Overview' })).toBeVisible();
  await expect(page.getByRole('option', { name: /Audit|New job|Import/ })).toHaveCount(0);
  await page.keyboard.press('Escape');
  await expect(page).toHaveURL(/\/ui\/$/);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole('button', { name: 'More' }).click();
  await expect(page.getByRole('menuitem', { name: 'Settings' })).toBeVisible();
  await expect(page.getByRole('menuitem', { name: 'Audit' })).toHaveCount(0);
});

test('plain HTTP from another machine: the login page says why it cannot work', async () => {
  const { url } = place();
  const port = new URL(url).port;
  const browser = await chromium.launch({ ...launchOptions, args: [...(launchOptions.args ?? []), '--host-resolver-rules=MAP scheduler.test 127.0.0.1'] });
  const page = await browser.newPage();
  await page.goto(`http://scheduler.test:${port}/ui/`);
  await expect(page.getByRole('alert')).toContainText('only over HTTPS');
  await page.getByLabel('API key').fill(place().key);
  await expect(page.getByRole('button', { name: 'Log in' })).toHaveAttribute('aria-disabled', 'true');
  await page.keyboard.press('Enter');
  await expect(page.getByLabel('API key')).toHaveValue(place().key);
  await browser.close();
});

test('times are those of the node, whatever the clock of the browser says', async ({ user: page }) => {
  await page.clock.setFixedTime(Date.now() + 600_000);
  await open(page, '/jobs?name=usage-rollup');
  const row = page.getByRole('row', { name: /usage-rollup/ });
  await expect(row).toContainText(/in \d+ s|now/);
  await expect(row).not.toContainText('min ago');
});

test('Ctrl K opens the job that was typed, however slow the node is', async ({ user: page }) => {
  await page.route('**/api/v1/jobs?name=*', async (route) => {
    await new Promise((done) => setTimeout(done, 250));
    await route.continue();
  });
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox').pressSequentially('feed-partner-17', { delay: 20 });
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'feed-partner-17' })).toBeVisible();
});

test('a rejected input is not stale data, and the job page has its keys', async ({ user: page }) => {
  await open(page, '/jobs/new');
  await page.getByLabel('Expression').fill('61 2 * * *');
  await expect(page.getByLabel('Expression')).toHaveAttribute('aria-invalid', 'true');
  const rejected = page.waitForResponse((r) => r.status() === 404);
  await open(page, '/operations/op_x');
  await rejected;
  for (let i = 0; i < 2; i++) await page.waitForResponse(/\/api\/v1\/overview/); // the chip looks more often than the page polls
  await expect(page.locator('[data-live]')).toHaveAttribute('data-live', 'live');
  await open(page, '/jobs/usage-rollup');
  await expect(page.getByRole('heading', { name: 'usage-rollup' })).toBeVisible();
  await page.keyboard.press('t');
  await expect(page.getByRole('dialog', { name: 'Trigger usage-rollup' })).toBeVisible();
  await page.keyboard.press('Escape');
  await page.keyboard.press('p');
  await expect(page.getByRole('dialog', { name: 'Pause usage-rollup' })).toBeVisible();
});
