import { expect, test } from '@playwright/test';
import { World } from './world';

// The first minutes of a user who has just built Belfry, in an empty directory: from the start to a broken target and back.
test('the first five minutes', async ({ page }) => {
  const world = new World();
  const steps: [string, number][] = [];
  let began = Date.now();
  const step = (name: string) => {
    steps.push([name, (Date.now() - began) / 1000]);
    began = Date.now();
  };
  try {
    await world.start();
    step('belfry dev is up');

    await page.goto(world.loginURL);
    await expect(page.getByRole('heading', { name: /Everything is on time|late/ })).toBeVisible();
    step('its URL opens the UI, logged in');

    world.broken = false;
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill('new job');
    await page.keyboard.press('Enter');
    await page.getByRole('textbox', { name: 'Name' }).fill('invoices');
    await page.getByText('Interval', { exact: true }).click();
    await page.getByRole('textbox', { name: 'Interval' }).fill('10s');
    await page.getByLabel('URL').fill(`${world.targets}/billing/invoices`);
    await page.getByLabel('Maximum number of attempts').fill('1');
    await page.getByRole('button', { name: 'Create job' }).first().click();
    await expect(page).toHaveURL(/\/ui\/jobs\/job_/);
    const job = page.url();
    step('a job is created in the editor');

    await expect(page.getByRole('row', { name: /Succeeded/ }).first()).toBeVisible();
    step('its first run has succeeded, seen on its page');

    world.broken = true;
    await expect(page.getByRole('row', { name: /Failed/ }).first()).toBeVisible();
    step('the target is broken, and a failed run is seen');

    await page.getByRole('link', { name: /^Dead letters/ }).click();
    await expect(page.getByText('502 Bad Gateway: upstream billing-7 refused the connection')).toBeVisible();
    await page.getByRole('button', { name: /502 Bad Gateway/ }).click();
    await page.locator('a[href*="/ui/runs/run_"]').first().click();
    await expect(page.getByText(/said: 502 Bad Gateway/)).toBeVisible();
    step('why is found: 502 of the target');

    world.broken = false;
    await page.goto(job);
    await expect(page.getByRole('table').getByRole('row').filter({ hasText: /Succeeded|Failed/ }).first()).toContainText('Succeeded');
    step('the target is repaired, and a run succeeds');

    await page.getByRole('link', { name: /^Dead letters/ }).click();
    await page.getByRole('button', { name: 'Redrive…' }).first().click();
    await page.getByRole('dialog').getByRole('button', { name: /^Redrive/ }).click();
    await page.getByRole('link', { name: /^Dead letters/ }).click();
    await expect(page.getByText('Nothing waits for you')).toBeVisible();
    step('all dead letters are redriven');
  } finally {
    await world.stop();
  }
  const total = steps.reduce((n, [, s]) => n + s, 0);
  console.log([...steps, ['in all', total] as const].map(([name, s]) => `${s.toFixed(1).padStart(7)} s  ${name}`).join('\n'));
});
