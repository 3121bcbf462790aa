import { expect, test as base, type Page } from '@playwright/test';
import { readFileSync } from 'node:fs';

export type Place = { url: string; key: string; targets: string };

/** Where the world of this run is; see setup.ts. */
export const place = (): Place => JSON.parse(readFileSync(process.env.BELFRY_E2E_PLACE!, 'utf8')) as Place;

export async function call<T = Record<string, unknown>>(method: string, path: string, body?: unknown, type = 'application/json'): Promise<T> {
  const { url, key } = place();
  const r = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'Content-Type': type }) },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await r.text();
  if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${text}`);
  return (text ? JSON.parse(text) : {}) as T;
}

const keys = new Map<string, string>([]);

/** A key of a role. */
export async function keyOf(role: string): Promise<string> {
  if (role === 'admin') return place().key;
  if (!keys.has(role)) keys.set(role, (await call<{ key: string; secret?: string }>('POST', '/keys', { name: `${role} of the tests`, role })).secret!);
  return keys.get(role)!;
}

/** Gives the browser a session of a role. The login page has tests of its own. */
export async function login(page: Page, role = 'admin'): Promise<void> {
  const answer = await page.request.post(`${place().url}/api/v1/session`, { data: { key: await keyOf(role) }, headers: { 'Belfry-UI': '1' } });
  expect(answer.status()).toBe(201);
}

/** Opens a screen. */
export async function open(page: Page, path: string): Promise<void> {
  await page.goto(`${place().url}/ui${path}`);
  await expect(page.locator('main#content')).toBeVisible();
}

/** The screen shows its content, or a state, and is no longer loading. */
export async function settled(page: Page): Promise<void> {
  await expect(page.locator('main#content > *')).not.toHaveCount(0);
  await expect(page.locator('[data-state="loading"]')).toHaveCount(0);
  await page.evaluate(() => document.fonts.ready);
}

/** Goes to a screen as a link does. Reading the whole page again for each screen would take most of the time. */
export async function go(page: Page, path: string): Promise<void> {
  const screen = (p: string) => p.split('?')[0]!.split('/').map((s) => (s.includes('_') ? '$' : s)).join('/');
  if (!page.url().startsWith(place().url) || screen(path) === screen(page.url().slice(`${place().url}/ui`.length))) return open(page, path);
  await page.evaluate((to) => {
    document.querySelector('main#content > *')?.setAttribute('data-old', '');
    history.pushState(null, '', to);
  }, `/ui${path}`);
  await expect(page.locator('main#content > :not([data-old])')).not.toHaveCount(0);
  await expect(page.locator('[data-old]')).toHaveCount(0);
}

type Watched = { faults: string[] };

/** A page that fails its test if the browser reports a violation of the policy, a foreign request or an error of a script. */
export const test = base.extend<{ watched: Watched; user: Page }>({
  watched: [async ({ page }, use) => {
    const faults: string[] = [];
    const origin = new URL(place().url).origin;
    page.on('request', (r) => { if (!r.url().startsWith(origin) && !r.url().startsWith('data:')) faults.push(`foreign request: ${r.url()}`); });
    page.on('pageerror', (e) => faults.push(`script error: ${e.message}`));
    page.on('console', (m) => {
      if (m.type() === 'error' && !/status of (400|401|403|404|409|412|422|429|503)/.test(m.text())) faults.push(`console: ${m.text()}`);
    });
    await page.addInitScript(() => {
      // What a dialog shows must be known.
      const wrong = /\b(undefined|NaN)\b|\[object /;
      new MutationObserver(() => {
        for (const d of document.querySelectorAll<HTMLElement>('[role=dialog]'))
          if (wrong.test(d.innerText)) console.error(`a dialog shows ${wrong.exec(d.innerText)![0]}: ${d.innerText}`);
      }).observe(document, { childList: true, subtree: true, characterData: true });
      document.addEventListener('securitypolicyviolation', (e) => console.error(`policy violation: ${e.violatedDirective} ${e.blockedURI}`));
    });
    await use({ faults });
    expect(faults).toEqual([]);
  }, { auto: true }],
  user: async ({ page }, use) => {
    await login(page);
    await open(page, '/');
    await use(page);
  },
});

export { expect };
