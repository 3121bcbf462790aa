import axe from 'axe-core';
import type { Page, Route } from '@playwright/test';
import { call, expect, go, login, place, settled, test } from './fixture';

// Every screen in every state, light and dark, on a desktop and on a phone: no finding of axe from WCAG 2.0 A to 2.2 AA, and no page
// that scrolls sideways. A theme changes colours only, so the dark one is checked by the rules about colours. On a phone, only the
// content is checked by axe. In other states than the content, screens show the same few components in the same frame: they are
// checked in both themes and with the frame on some screens, and without both on all others. AXE=all checks everything everywhere.

const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
const colours = ['color-contrast', 'link-in-text-block'];
const sizes = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

type Axe = { run: (d: Document | string, o: object) => Promise<{ violations: { id: string; help: string; nodes: { html: string; target: unknown }[] }[] }> };

const findings = (page: Page, runOnly: string[], part?: string): Promise<string[]> => page.evaluate(async ([only, within]) => {
  const { axe: a } = window as unknown as { axe: Axe };
  const r = await a.run(within ?? document, { runOnly: only, resultTypes: ['violations'] });
  return r.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')}`);
}, [runOnly, part] as const);

const all = process.env.AXE === 'all';

type Scope = { phone?: boolean; dark?: boolean; part?: string | undefined };

/** Checks what the page shows now, or a part of it, in both themes and both sizes. */
async function check(page: Page, what: string, { phone = true, dark = true, part }: Scope = {}): Promise<void> {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe.source);
  for (const [size, viewport] of Object.entries(sizes)) {
    await page.setViewportSize(viewport);
    const themes = all || (size === 'desktop' && dark) ? (['light', 'dark'] as const) : size === 'desktop' || phone ? (['light'] as const) : [];
    for (const theme of themes) {
      await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
      await expect(page.locator(`html[data-mantine-color-scheme="${theme}"]`)).toBeAttached();
      // Colours of a transition are between those of the themes.
      await page.evaluate(() => Promise.all(document.getAnimations().map((a) => a.finished.catch(() => {}))));
      expect.soft(await findings(page, theme === 'light' ? tags : colours, part), `${what}, ${theme}, ${size}`).toEqual([]);
    }
    const sideways = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect.soft(sideways, `${what}, ${size}: the page scrolls sideways`).toBeLessThanOrEqual(0);
  }
  await page.setViewportSize(sizes.desktop);
}

/** The screens. Ids are looked up in the world. */
async function screens(): Promise<[name: string, path: string][]> {
  const job = (await call<{ id: string }>('GET', '/jobs/nightly-report')).id;
  const letters = await call<{ items: { run: string }[] }>('GET', '/dead-letters?page_size=1');
  const operations = await call<{ items: { id: string }[] }>('GET', '/operations?page_size=1');
  const groups = await call<{ groups: { key: string }[] }>('GET', '/dead-letters:summary');
  const entries = await call<{ items: { seq: number }[] }>('GET', '/audit?page_size=1');
  return [
    ['overview', '/'], ['jobs', '/jobs'], ['job', `/jobs/${job}`], ['job, performance', `/jobs/${job}?tab=performance`],
    ['job, definition', `/jobs/${job}?tab=definition`], ['job, versions', `/jobs/${job}?tab=versions`], ['job, dead letters', `/jobs/${job}?tab=dead`],
    ['new job', '/jobs/new'], ['edit job', `/jobs/${job}/edit`], ['edit job as YAML', `/jobs/${job}/edit?view=yaml`], ['import', '/import'],
    ['runs', '/runs'], ['ended runs', '/runs?state=failed'], ['run', `/runs/${letters.items[0]!.run}`],
    ['dead letters', `/dead-letters?open=${encodeURIComponent(groups.groups[0]!.key)}`], ['load', '/load'], ['queues', '/queues'],
    ['queue', '/queues/etl'], ['operations', '/operations'], ['operation', `/operations/${operations.items[0]!.id}`], ['cluster', '/cluster'],
    ['audit', `/audit?entry=${entries.items[0]!.seq}`], ['settings', '/settings?tab=keys'], ['secrets', '/settings?tab=secrets'],
    ['no such page', '/nowhere'],
  ];
}

/** Screens that show each component of a state: of a page, of a table, of a chart, in a tab and beside a list. */
const typical = ['overview', 'jobs', 'job', 'job, versions', 'run', 'dead letters', 'load', 'cluster'];

/** How a screen is checked in a state. */
const scope = (state: State, name: string): Scope => (
  state === 'content' ? {} : all || typical.includes(name) ? { phone: false } : { phone: false, dark: false, part: 'main#content' }
);

/** Screens that ask for nothing before the user does something. */
const silent = ['new job', 'import', 'no such page'];

const api = /\/api\/v1\/(?!session$)/;
const problem = { status: 400, code: 'bad_request', title: 'Bad request', detail: 'The test made this fail.', request_id: 'req-1' };
const lists = ['items', 'groups', 'buckets', 'counts', 'hot', 'attention', 'failing', 'recent'];

/** An answer without content: lists are empty, and the overview counts nothing. */
function emptied(path: string, body: Record<string, unknown>): unknown {
  const zero = (v: unknown): unknown => {
    if (typeof v === 'number') return 0;
    return typeof v === 'object' && v !== null && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, zero(x)])) : v;
  };
  const out = path.endsWith('/overview') ? (zero(body) as Record<string, unknown>) : { ...body };
  for (const k of lists) if (Array.isArray(out[k])) out[k] = [];
  delete out.next_page_token;
  return out;
}

/** An answer of the test's own. The page may be gone at each step of it; without an answer, a page that is not gone never settles. */
const whileOpen = (answer: (r: Route) => Promise<void>) => (r: Route): Promise<void> => answer(r).catch(() => {});

type State = 'content' | 'viewer' | 'error' | 'loading' | 'empty';

const prepare: Partial<Record<State, (page: Page) => Promise<unknown>>> = {
  error: (page) => page.route(api, (r) => r.fulfill({ status: 400, contentType: 'application/problem+json', body: JSON.stringify(problem) })),
  loading: (page) => page.route(api, () => {}), // no answer, ever
  empty: (page) => page.route(api, whileOpen(async (r) => {
    const answer = await r.fetch();
    if (r.request().method() !== 'GET' || answer.status() !== 200) return r.fulfill({ response: answer });
    await r.fulfill({ response: answer, json: emptied(new URL(r.request().url()).pathname, await answer.json()) });
  })),
};

async function inState(page: Page, state: State, name: string): Promise<void> {
  if (state === 'loading' || state === 'error') {
    if (!silent.includes(name)) await expect(page.locator(`[data-state="${state}"]`).first()).toBeVisible();
  } else await settled(page);
}

const parts = 3;

for (const state of ['content', 'viewer', 'error', 'loading', 'empty'] as const) {
  for (let part = 0; part < parts; part++) {
    test(`every screen: ${state}, part ${part + 1} of ${parts}`, async ({ page }) => {
      await login(page, state === 'viewer' ? 'viewer' : 'admin');
      const every = await screens();
      await prepare[state]?.(page);
      for (const [name, path] of every.filter((_, i) => i % parts === part)) {
        await test.step(name, async () => {
          await go(page, path);
          await inState(page, state, name);
          await check(page, `${name}: ${state}`, scope(state, name));
        });
      }
    });
  }
}

test('old data, while a later read fails', async ({ user: page }) => {
  const old = ['overview', 'jobs', 'edit job', 'runs', 'queues']; // each component that shows old data
  for (const [name, path] of (await screens()).filter(([n]) => old.includes(n))) {
    await test.step(name, async () => {
      await go(page, path);
      await settled(page);
      await prepare.error!(page);
      // Data is read again when the user returns to the tab, if it is older than a second.
      await expect(async () => {
        await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange', { bubbles: true })));
        await expect(page.locator('main#content .stale').first()).toBeVisible({ timeout: 1000 });
      }).toPass();
      await check(page, `${name}: old data`, { phone: false });
      await page.unroute(api);
    });
  }
});

test('a run whose tables are wider than a phone', async ({ user: page }) => {
  const letters = await call<{ items: { run: string }[] }>('GET', '/dead-letters?page_size=1');
  await page.route(/\/api\/v1\/runs\/[^/]+$/, whileOpen(async (r) => {
    const run = await (await r.fetch()).json();
    const ended_at = new Date(Date.parse(run.due_at) + 10_000).toISOString(); // where the axis has a tick
    const attempts = [{ ...run.attempts[0], attempt: 1, started_at: run.due_at, ended_at }];
    const { attempts: _, ...earlier } = { ...run, ended_at, message: 'connect: connection refused', reason: 'unexpected_answer' };
    await r.fulfill({ json: { ...run, ended_at, attempts, earlier: [earlier] } });
  }));
  await go(page, `/runs/${letters.items[0]!.run}`);
  await expect(page.locator('#earlier')).toBeVisible();
  await settled(page);
  await check(page, 'a wide run', { dark: false });
});

test('the login page, and why a key is refused', async ({ page }) => {
  await page.goto(`${place().url}/ui/`);
  await expect(page.getByRole('button', { name: 'Log in' })).toBeVisible();
  await check(page, 'login');
  await page.getByLabel('API key').fill('bfk_wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByRole('alert')).toBeVisible();
  await check(page, 'login refused');
});

/** Checks the dialog that is open. */
async function checkDialog(page: Page, what: string): Promise<void> {
  await expect(page.getByRole('dialog')).toBeVisible();
  await check(page, what, { phone: false, part: '[role="dialog"]' });
}

test('open dialogs', async ({ user: page }) => {
  const dialog = page.getByRole('dialog');
  const closed = async () => {
    await page.keyboard.press('Escape');
    await expect(dialog).toHaveCount(0);
  };
  await test.step('palette and help', async () => {
    await go(page, '/');
    await settled(page);
    await page.keyboard.press('Control+k');
    await expect(page.getByRole('combobox', { name: /Find/ })).toBeFocused();
    await page.keyboard.type('nightly');
    await expect(page.getByRole('option').first()).toBeVisible();
    await checkDialog(page, 'palette');
    await closed();
    await page.keyboard.press('?');
    await checkDialog(page, 'help');
    await closed();
  });
  await test.step('actions on a job', async () => {
    await go(page, '/jobs/nightly-report');
    for (const name of ['Trigger…', 'Pause…', 'Backfill…']) {
      await page.getByRole('button', { name }).click();
      await checkDialog(page, name);
      await closed();
    }
  });
  await test.step('bulk', async () => {
    await go(page, '/jobs');
    await page.getByRole('checkbox', { name: 'Select all rows shown' }).check();
    await page.getByRole('button', { name: /^Pause/ }).first().click();
    await expect(dialog.getByRole('button', { name: /^Pause \d+ jobs/ })).toBeVisible();
    await checkDialog(page, 'bulk');
    await closed();
  });
  await test.step('dead letters', async () => {
    await go(page, '/dead-letters');
    for (const name of ['Redrive…', 'Discard…']) {
      await page.getByRole('button', { name }).first().click();
      await checkDialog(page, name);
      await closed();
    }
  });
  await test.step('a key that is shown once', async () => {
    await go(page, '/settings?tab=keys');
    await page.getByRole('button', { name: 'New key' }).click();
    await checkDialog(page, 'new key');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('seen by axe');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await expect(page.getByTestId('new-key')).toBeVisible();
    await checkDialog(page, 'key shown once');
    await page.getByLabel('I stored it').check();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Revoke seen by axe' }).click();
    await checkDialog(page, 'revoke');
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await expect(dialog).toHaveCount(0);
  });
});
