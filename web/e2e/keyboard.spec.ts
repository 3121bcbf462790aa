import type { Locator, Page } from '@playwright/test';
import { call, expect, login, open, place, test } from './fixture';
import { until } from './world';

// Ten tasks by keyboard alone: no pointer, and no script that focuses or clicks.

/** Presses Tab until an element has the focus, which must be visible. */
async function tabTo(page: Page, target: Locator, key: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
  await expect(target).toBeVisible();
  for (let i = 0; i < 150; i++) {
    if (await target.evaluate((e) => e === document.activeElement)) {
      await expect(target).toBeFocused();
      const outline = await target.evaluate((e) => {
        const shown = (x: Element | null) => !!x && (getComputedStyle(x).outlineStyle !== 'none' || getComputedStyle(x).boxShadow !== 'none');
        // An input may show the focus by its border, and the radio of a segmented control by its label.
        return shown(e) || e.matches('input, textarea, select') || shown(e.nextElementSibling);
      });
      expect(outline, 'the focus can be seen').toBe(true);
      return;
    }
    await page.keyboard.press(key);
  }
  throw new Error(`${String(target)} cannot be reached by ${key}`);
}

/** The focus is somewhere in the page, so that the next key has an effect where the user expects it. */
const focusKept = (page: Page) => expect.poll(() => page.evaluate(() => document.activeElement !== document.body)).toBe(true);

/** A job whose last three occurrences failed with a message of their own. */
async function brokenJob(name: string): Promise<string> {
  const url = `${place().targets}/unknown/${name}`;
  const hour = 3600_000;
  const end = Math.floor(Date.now() / hour) * hour;
  // The hours of the backfill only, so that the schedule adds no run of its own when the next hour begins.
  const cron = `0 ${[3, 2, 1].map((ago) => new Date(end - ago * hour).getUTCHours()).join(',')} * * *`;
  const job = await call<{ id: string }>('POST', '/jobs', {
    name, schedule: { cron, timezone: 'UTC' }, queue: name, retry: { max_attempts: 1 }, target: { kind: 'http', config: { url } },
  });
  const range = { from: new Date(end - 3 * hour).toISOString(), to: new Date(end).toISOString() };
  await call('POST', `/jobs/${job.id}:backfill`, { ...range, pace: '0s' });
  await until(`dead letters of ${name}`, async () => (await call<{ items: unknown[] }>('GET', `/dead-letters?queue=${name}`)).items.length === 3);
  return job.id;
}

test('log in', async ({ page }) => {
  await page.goto(`${place().url}/ui/`);
  await tabTo(page, page.getByLabel('API key'));
  await page.keyboard.type(place().key);
  await page.keyboard.press('Enter');
  await expect(page.locator('main#content')).toBeVisible();
});

test('find a job by the palette, open its failed occurrence and read why', async ({ user: page }) => {
  await brokenJob('keys-why');
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('combobox', { name: /Find/ })).toBeFocused();
  await page.keyboard.type('keys-why');
  await expect(page.getByRole('option', { name: /keys-why/ })).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1 })).toContainText('keys-why');
  await tabTo(page, page.locator('[data-column][tabindex="0"]'));
  const focused = page.locator('[data-column]:focus');
  await page.keyboard.press('Home');
  for (let i = 0; i < 60 && !/Failed/.test((await focused.textContent()) ?? ''); i++) await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  const panel = page.getByRole('region', { name: 'The occurrence that is chosen' });
  await expect(panel).toContainText('keys-why is not known');
  await tabTo(page, panel.getByRole('link', { name: 'Open the run' }));
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/ui\/runs\/run_/);
  await expect(page.getByText('keys-why is not known').first()).toBeVisible();
});

test('pause and resume a job', async ({ user: page }) => {
  const id = await brokenJob('keys-pause');
  await open(page, `/jobs/${id}`);
  await tabTo(page, page.getByRole('button', { name: /^Pause/ }));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByLabel(/^Note/)).toBeFocused();
  await page.keyboard.type('by keys');
  await tabTo(page, dialog.getByRole('button', { name: 'Pause', exact: true }));
  await page.keyboard.press('Enter');
  await expect(page.getByText('“by keys”')).toBeVisible();
  await expect(dialog).toHaveCount(0);
  await tabTo(page, page.getByRole('button', { name: /^Resume/ }));
  await page.keyboard.press('Enter');
  await tabTo(page, dialog.getByRole('button', { name: 'Resume', exact: true }));
  await page.keyboard.press('Enter');
  await expect(page.getByRole('button', { name: /^Pause/ })).toBeVisible();
  expect(await call('GET', `/jobs/${id}`)).toMatchObject({ state: 'active' });
});

test('trigger a job', async ({ user: page }) => {
  const id = await brokenJob('keys-trigger');
  await open(page, `/jobs/${id}`);
  await tabTo(page, page.getByRole('button', { name: /^Trigger/ }));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByLabel(/^Payload/)).toBeFocused();
  await page.keyboard.type('{"by": "keys"}');
  await tabTo(page, dialog.getByRole('button', { name: 'Trigger now' }));
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/ui\/runs\/run_/);
  await expect(page.getByRole('region', { name: 'Payload' })).toContainText('keys');
});

test('create a job in the editor', async ({ user: page }) => {
  await page.keyboard.press('g');
  await page.keyboard.press('j');
  await tabTo(page, page.getByRole('link', { name: 'New job' }));
  await page.keyboard.press('Enter');
  await tabTo(page, page.getByRole('textbox', { name: 'Name' }));
  await page.keyboard.type('keys-created');
  await tabTo(page, page.getByLabel('Expression'));
  await page.keyboard.type('30 2 * * *');
  await tabTo(page, page.getByLabel('URL'));
  await page.keyboard.type(`${place().targets}/ok`);
  await expect(page.getByRole('heading', { name: /^At 02:30 every day/ })).toBeVisible();
  await page.keyboard.press('Control+s');
  await expect(page).toHaveURL(/\/ui\/jobs\/job_/);
  await expect(page.getByRole('heading', { level: 1 })).toContainText('keys-created');
});

test('redrive a group of dead letters', async ({ user: page }) => {
  await brokenJob('keys-redrive');
  await page.keyboard.press('g');
  await page.keyboard.press('d');
  const group = page.getByRole('listitem').filter({ hasText: 'keys-redrive is not known' });
  await tabTo(page, group.getByRole('button', { expanded: false }));
  await page.keyboard.press('Enter');
  await expect(group.getByRole('table')).toBeVisible();
  await tabTo(page, group.getByRole('button', { name: 'Redrive…' }));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await tabTo(page, dialog.getByRole('button', { name: 'Redrive 3 dead letters' }));
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/ui\/operations\/op_/);
  await expect(page.getByRole('heading', { level: 1 })).toContainText('Redrive 3 dead letters');
});

test('run a run again', async ({ user: page }) => {
  const { items } = await call<{ items: { id: string; state: string }[] }>('GET', '/jobs/nightly-report/runs?page_size=100');
  const run = items.find((r) => r.state === 'succeeded')!;
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('combobox', { name: /Find/ })).toBeFocused();
  await page.keyboard.type(run.id);
  await page.keyboard.press('Enter');
  await tabTo(page, page.getByRole('button', { name: /^Run again/ }));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await tabTo(page, dialog.getByRole('button', { name: 'Run again', exact: true }));
  await page.keyboard.press('Enter');
  await expect(dialog).toHaveCount(0);
  await expect(page.getByRole('heading', { name: 'Earlier ends' })).toBeVisible();
  await focusKept(page);
});

test('switch the time zone and the theme', async ({ page }) => {
  await login(page);
  await open(page, '/jobs/nightly-report');
  await tabTo(page, page.getByRole('radio', { name: 'Job time' }));
  await page.keyboard.press('ArrowRight');
  await expect(page.getByRole('radio', { name: 'UTC' })).toBeChecked();
  await expect(page.locator('[data-column] .sr').first()).toContainText('UTC');
  await tabTo(page, page.getByRole('button', { name: 'Dark theme' }), 'Shift+Tab');
  await page.keyboard.press('Enter');
  await expect(page.locator('html[data-mantine-color-scheme="dark"]')).toBeAttached();
  await expect(page.getByRole('button', { name: 'Light theme' })).toBeFocused();
});

test('walk the heat map to the hottest minute and open its jobs', async ({ user: page }) => {
  await page.keyboard.press('g');
  await page.keyboard.press('l');
  await tabTo(page, page.locator('[role=gridcell][tabindex="0"]'));
  await page.keyboard.press('PageUp');
  const cell = page.locator('[role=gridcell]:focus');
  await expect(cell).toHaveAttribute('aria-selected', 'true');
  const load = await call<{ from: string; hot: { at: string }[] }>('GET', '/load');
  const minute = 60_000;
  const hot = Date.parse(load.hot[0]!.at);
  const label = `${new Date(hot).toISOString().slice(11, 16)} UTC`;
  const begin = await cell.getAttribute('aria-label');
  const start = Date.parse(`${load.from.slice(0, 10)}T${begin!.slice(0, 5)}:00Z`);
  const steps = Math.round((hot - start) / minute);
  for (let i = 0; i < Math.floor(steps / 60); i++) {
    const before = await cell.getAttribute('aria-label');
    await page.keyboard.press('ArrowDown');
    await expect(cell).not.toHaveAttribute('aria-label', before!);
  }
  for (let i = 0; i < steps % 60; i++) {
    const before = await cell.getAttribute('aria-label');
    await page.keyboard.press('ArrowRight');
    await expect(cell).not.toHaveAttribute('aria-label', before!);
  }
  await expect(cell).toHaveAttribute('aria-label', new RegExp(`^${label}`));
  await tabTo(page, page.getByRole('link', { name: 'Show jobs' }));
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/due_from=/);
  await expect(page.locator('tbody tr[data-index]').first()).toBeVisible();
});

test('no dialog keeps the focus, and it returns to where it was', async ({ user: page }) => {
  for (const key of ['?', 'Control+k']) {
    await tabTo(page, page.getByRole('button', { name: /^Find/ }));
    await page.keyboard.press(key);
    await expect(page.getByRole('dialog')).toBeVisible();
    for (let i = 0; i < 30; i++) await page.keyboard.press('Tab');
    expect(await page.evaluate(() => !!document.activeElement?.closest('[role=dialog]')), 'Tab stays within the dialog').toBe(true);
    await page.keyboard.press('Escape');
    await expect(page.getByRole('dialog')).toHaveCount(0);
    await expect(page.getByRole('button', { name: /^Find/ })).toBeFocused();
  }
});
