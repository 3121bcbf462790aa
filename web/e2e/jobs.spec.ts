import { call, expect, place, test } from './fixture';

// Jobs, a job, runs and a run, used as people do: by the pointer, by keys alone, and by links.

test('filters of the list are in the URL, and a link opens the same list', async ({ user: page }) => {
  await page.goto(`${place().url}/ui/jobs`);
  await expect(page.locator('tbody tr[data-index]').first()).toBeVisible();
  await page.keyboard.press('/');
  await page.keyboard.type('feed-partner');
  await expect(page).toHaveURL(/name=feed-partner/);
  const rows = page.locator('tbody tr[data-index]');
  await expect(rows.first()).toContainText('feed-partner');
  await page.getByRole('button', { name: 'Filter' }).click();
  await expect(page.getByRole('button', { name: 'State', exact: true })).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('textbox', { name: 'Label', exact: true })).toBeFocused();
  await page.keyboard.type('team=partners');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/label=team%3Dpartners/);
  await expect(page.getByText('40 jobs')).toBeAttached();
  await page.reload();
  await expect(page.getByText('40 jobs')).toBeAttached();
  await page.getByRole('button', { name: 'Clear', exact: true }).click();
  await expect(page).not.toHaveURL(/name=/);
});

test('the list goes on to the last job, and only rows near the window are in the page', async ({ user: page }) => {
  const seen = new Set<string>();
  await page.goto(`${place().url}/ui/jobs?name=tenant-`);
  await expect(page.locator('tbody tr[data-index]').first()).toBeVisible();
  await expect(async () => {
    for (const name of await page.locator('tbody tr[data-index] td:nth-child(2) > a').allTextContents()) seen.add(name);
    await page.mouse.wheel(0, 600);
    expect(seen.size).toBe(150);
  }).toPass();
  expect(await page.locator('tbody tr[data-index]').count()).toBeLessThan(80);
  expect(page.url()).not.toContain('token');
});

test('by keys alone: choose rows, open a dialog, come back to the row', async ({ user: page }) => {
  await page.goto(`${place().url}/ui/jobs?name=feed-partner`);
  await expect(page.locator('tbody tr[data-index]').first()).toBeVisible();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('x');
  await expect(page.getByRole('toolbar', { name: 'Selected jobs' })).toContainText('1 job selected');
  await page.keyboard.press('p');
  await expect(page.getByRole('dialog')).toContainText('Pause feed-partner');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await expect(page.locator('tr[data-index="1"]')).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/ui\/jobs\/job_/);
});

test('a job is paused with a note, says so, and is resumed', async ({ user: page }) => {
  const job = await call<{ id: string }>('POST', '/jobs',
    { name: 'e2e-pause', schedule: 'every 1h', target: { kind: 'http', config: { url: `${place().targets}/ok` } } });
  await page.goto(`${place().url}/ui/jobs/${job.id}`);
  await page.getByRole('button', { name: 'Pause…' }).click();
  await page.getByLabel(/^Note/).fill('<b>broken</b> disk');
  await page.getByRole('button', { name: 'Pause', exact: true }).click();
  await expect(page.getByText('“<b>broken</b> disk”')).toBeVisible();
  await page.getByRole('button', { name: 'Resume…' }).click();
  await page.getByRole('button', { name: 'Resume', exact: true }).click();
  await expect(page.getByRole('button', { name: 'Pause…' })).toBeVisible();
});

test('a job that Belfry paused says why', async ({ user: page }) => {
  await page.goto(`${place().url}/ui/jobs/import-vendor-stock`);
  await expect(page.getByText('Paused by Belfry itself')).toBeVisible();
  await expect(page.getByText(/410/).first()).toBeVisible();
});

test('an occurrence is chosen by arrow keys, is explained, and has a link', async ({ user: page }) => {
  await page.goto(`${place().url}/ui/jobs/nightly-report`);
  const columns = page.locator('[data-column]');
  await expect(columns.first()).toBeVisible();
  await page.locator('[data-column][tabindex="0"]').focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  const text = await page.locator('[data-column]:focus .sr').textContent();
  await page.keyboard.press('Enter');
  await expect(page.locator('[data-column][aria-pressed="true"]')).toBeFocused();
  const panel = page.getByRole('region', { name: 'The occurrence that is chosen' });
  await expect(panel).toContainText('It ran and succeeded');
  const at = new URL(page.url()).searchParams.get('at')!;
  await page.goto(`${page.url().split('?')[0]}/at/${encodeURIComponent(at)}`);
  await expect(page.locator('[data-column][aria-pressed="true"] .sr')).toHaveText(text!);
  await expect(page.getByRole('region', { name: 'The occurrence that is chosen' })).toContainText('It ran and succeeded');
});

test('a job that runs every five seconds is counted, and a click leads to its occurrences', async ({ user: page }) => {
  await page.goto(`${place().url}/ui/jobs/sla-probe?zoom=day`);
  const busy = page.locator('[data-column]', { hasText: /\d+ succeeded/ }).last();
  await expect(busy).toBeVisible();
  for (let i = 0; i < 6 && await busy.count() > 0; i++) {
    const text = await busy.locator('.sr').textContent();
    await busy.click();
    await expect(page.locator('[data-column] .sr').filter({ hasText: text! })).toHaveCount(0);
    await expect(page.locator('[data-column]').first()).toBeVisible();
  }
  const one = page.locator('[data-column]', { hasText: /, Succeeded/ }).first();
  await one.click();
  await expect(page.getByRole('region', { name: 'The occurrence that is chosen' })).toContainText('succeeded');
});

test('versions can be compared', async ({ user: page }) => {
  await page.goto(`${place().url}/ui/jobs/nightly-report?tab=versions`);
  await expect(page.getByRole('heading', { name: 'Version 1 to 2' })).toBeVisible();
  await expect(page.locator('[data-kind="removed"]')).toContainText('timeout: 1m30s');
  await expect(page.locator('[data-kind="added"]').last()).toContainText('timeout: 2m');
});

test('a triggered run opens, keeps large numbers, and is run again only once', async ({ user: page }) => {
  const number = '9007199254740993';
  const target = { kind: 'http', config: { url: `${place().targets}/bad` } };
  await call('POST', '/jobs', `{"name":"e2e-exact","schedule":"every 1h","retry":{"max_attempts":1},"target":${JSON.stringify(target)}}`);
  await page.goto(`${place().url}/ui/jobs/e2e-exact`);
  await page.getByRole('button', { name: 'Trigger…' }).click();
  await page.getByLabel(/^Payload/).fill(`{"account": ${number}}`);
  await page.getByRole('button', { name: 'Trigger now' }).click();
  await expect(page).toHaveURL(/\/ui\/runs\/run_/);
  await expect(page.getByRole('region', { name: 'Payload' })).toContainText(number);
  await expect(page.getByText('dead letter', { exact: true })).toBeVisible();
  const message = page.getByRole('table', { name: 'Attempts of the run' }).locator('code:visible');
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    await expect(message).toHaveCount(1);
  }
  await page.getByRole('button', { name: 'Redrive…' }).click();
  const run = page.url().split('/').pop()!;
  await call('POST', `/dead-letters/${run}:discard`);
  await page.getByRole('button', { name: 'Redrive', exact: true }).click();
  await expect(page.getByRole('alert')).toContainText('The run is no longer a dead letter');
});

test('the two modes of runs, and a deleted job', async ({ user: page }) => {
  await page.goto(`${place().url}/ui/runs`);
  await expect(page.locator('tbody tr[data-index]').first()).toContainText(/Due|Running|Accepted|Retrying/);
  await page.getByText('Ended', { exact: true }).click();
  await expect(page).toHaveURL(/mode=ended/);
  await expect(page.locator('tbody tr[data-index]').first()).toContainText(/Succeeded|Failed|Skipped|Missed|Cancelled/);
  const job = await call<{ id: string }>('POST', '/jobs',
    { name: 'e2e-gone', schedule: 'every 1h', target: { kind: 'http', config: { url: `${place().targets}/ok` } } });
  await call('DELETE', `/jobs/${job.id}`);
  await page.goto(`${place().url}/ui/jobs/${job.id}`);
  await expect(page.getByText('This job is deleted.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Trigger…' })).toHaveCount(0);
});

test('the timeline has today, and any time can be explained', async ({ user: page }) => {
  await page.goto(`${place().url}/ui/jobs/certificate-renew?zoom=month`);
  await expect(page.getByRole('button', { name: /no occurrence$/ }).first()).toBeVisible();
  await page.goto(`${place().url}/ui/jobs/nightly-report`);
  await page.getByRole('textbox', { name: /^Explain a time/ }).fill('2026-01-05 12:34');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/at=2026-01-05T11%3A34/);
  await expect(page.getByRole('region', { name: 'The occurrence that is chosen' })).toContainText('12:34');
});

test('what was missed is on the overview, and late runs say what they wait for', async ({ user: page }) => {
  await expect(page.getByText(/occurrences? (was|were) missed/)).toBeVisible();
  await expect(page.getByText('Missed, 1 h')).toBeVisible();
  await expect(page.getByRole('link', { name: 'See the paused jobs' })).toBeVisible();
  await page.goto(`${place().url}/ui/runs?state=due&queue=media`);
  await expect(page.getByRole('row', { name: /thumbnail-batch/ }).first()).toContainText('no worker for media.thumbnail');
});
