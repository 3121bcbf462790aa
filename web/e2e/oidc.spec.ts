import { expect, test, type Browser, type Page } from '@playwright/test';
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { freePort, until, World } from './world';

// People log in through a real identity provider, in a real browser. The node shares the database of a world of its own.

const binary = resolve(import.meta.dirname, '../../bin/belfry');
const world = new World();
let provider: ChildProcess | undefined, node: ChildProcess | undefined;
let url = '';

/** Starts a process and returns what it prints, as it comes. */
function start(command: string, args: string[], env: Record<string, string>): { child: ChildProcess; out: () => string } {
  let out = '';
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  child.stdout!.on('data', (b: Buffer) => { out += b.toString(); });
  child.stderr!.on('data', (b: Buffer) => { out += b.toString(); });
  return { child, out: () => out };
}

/** The database of the world, as its owner, who alone creates namespaces. */
function ownerURL(config: string): string {
  const to = new URL(/^database_url: (\S+)/m.exec(readFileSync(config, 'utf8'))![1]!);
  to.username = 'belfry';
  to.password = /^owner_password: (\S+)/m.exec(readFileSync(join(config, '../secrets.yaml'), 'utf8'))![1]!;
  return to.href;
}

test.describe.configure({ mode: 'serial' });

test.beforeAll(async () => {
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const p = start(process.execPath, [join(import.meta.dirname, 'provider/main.mjs')], { REDIRECT_URI: `${url}/auth/oidc/callback` });
  provider = p.child;
  await world.start();
  const issuer = await until('the provider to start', async () => /^issuer (\S+)$/m.exec(p.out())?.[1]);
  const config = join(world.dir, 'data', 'belfry.yaml');
  const made = start(binary, ['namespace', 'create', 'other'], { BELFRY_DATABASE_URL: ownerURL(config) });
  await new Promise((done) => made.child.once('exit', done));
  expect(made.child.exitCode, made.out()).toBe(0);
  const n = start(binary, ['server', '--config', config, '--listen', `127.0.0.1:${port}`, '--name', 'sso'], {
    BELFRY_OIDC_ISSUER: issuer, BELFRY_OIDC_NAME: 'Example', BELFRY_OIDC_CLIENT_ID: 'belfry',
    BELFRY_OIDC_CLIENT_SECRET: 'a secret of the tests: %/+', BELFRY_OIDC_SCOPES: 'openid email groups',
    BELFRY_OIDC_ROLES: 'staff = default:viewer; belfry-admins = default:admin; belfry-admins = other:operator',
  });
  node = n.child;
  await until(`the node to start: ${n.out()}`, async () => (await fetch(`${url}/readyz`)).ok);
});

async function stop(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => child.once('exit', done));
  child.kill('SIGTERM');
  await ended;
}

test.afterAll(async () => {
  await stop(node);
  await stop(provider);
  await world.stop();
});

/** A page that reports violations of the policy and errors of scripts on pages of the node. */
async function open(browser: Browser): Promise<{ page: Page; faults: string[] }> {
  const faults: string[] = [];
  const page = await (await browser.newContext()).newPage();
  page.on('pageerror', (e) => faults.push(`script error: ${e.message}`));
  page.on('console', (m) => {
    if (m.type() === 'error' && page.url().startsWith(url) && !/status of (401|403)/.test(m.text())) faults.push(`console: ${m.text()}`);
  });
  return { page, faults };
}

async function logIn(page: Page, path: string, name: string): Promise<void> {
  await page.goto(`${url}/ui${path}`);
  await page.getByRole('link', { name: 'Log in with Example' }).click();
  await page.getByPlaceholder('Enter any login').fill(name);
  await page.getByPlaceholder('and password').fill('any');
  await page.getByRole('button', { name: 'Sign-in' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
}

test('a person logs in, acts under the own name, switches the namespace and logs out', async ({ browser }) => {
  const { page, faults } = await open(browser);
  await logIn(page, '/jobs?name=demo', 'ann');
  await expect(page).toHaveURL(`${url}/ui/jobs?name=demo`);
  await expect(page.locator('main#content')).toBeVisible();
  const cookies = await page.context().cookies(url);
  const session = cookies.find((c) => c.name === 'belfry')!;
  expect(session).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
  expect(cookies.filter((c) => c.name === 'belfry-login'), 'the state is gone').toEqual([]);
  await page.reload();
  await expect(page.locator('main#content')).toBeVisible();

  await page.goto(`${url}/ui/settings?tab=me`);
  await expect(page.getByText('ann@example.com').first()).toBeVisible();
  const job = await world.call<{ id: string }>('GET', '/jobs/demo');
  await page.goto(`${url}/ui/jobs/${job.id}`);
  await page.getByRole('button', { name: 'Pause' }).first().click();
  await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
  await expect.poll(async () => (await world.call<{ state: string }>('GET', `/jobs/${job.id}`)).state).toBe('paused');
  const audit = await world.call<{ items: { actor: string; action: string }[] }>('GET', '/audit?actor=ann%40example.com');
  expect(audit.items.map((e) => e.action)).toEqual(['job.pause', 'session.login']);
  expect(audit.items[0]!.actor).toMatch(/^user:ann@example\.com \[user_[0-9a-v]{26}\]$/);

  await page.getByRole('button', { name: /Menu of the user$/ }).click();
  await page.getByRole('menuitem', { name: 'Switch to other' }).click();
  await expect(page.getByTitle('Namespace')).toHaveText('other');
  await page.getByRole('button', { name: /Menu of the user$/ }).click();
  await page.getByRole('menuitem', { name: 'Log out' }).click();
  await expect(page.getByRole('link', { name: 'Log in with Example' })).toBeVisible();
  expect(faults).toEqual([]);
});

test('groups decide: a viewer cannot act, and a stranger does not get in', async ({ browser }) => {
  const { page } = await open(browser);
  await logIn(page, '/', 'vic');
  await expect(page.locator('main#content')).toBeVisible();
  await expect(page.getByRole('link', { name: 'Audit' })).toHaveCount(0);
  const refused = await page.evaluate(async () => {
    const r = await fetch('/api/v1/jobs/demo:resume', { method: 'POST', headers: { 'Belfry-UI': '1' } });
    return { status: r.status, detail: ((await r.json()) as { detail: string }).detail };
  });
  expect(refused).toEqual({ status: 403, detail: 'this needs the role operator, and your groups give you viewer' });

  const { page: stranger } = await open(browser);
  await logIn(stranger, '/', 'eve');
  await expect(stranger.getByRole('heading', { name: 'The login did not work' })).toBeVisible();
  await expect(stranger.getByText('none of your groups may use Belfry')).toBeVisible();
  expect((await stranger.context().cookies(url)).filter((c) => c.name === 'belfry')).toEqual([]);
});

test('without the provider, keys still log in', async ({ browser }) => {
  const { page } = await open(browser);
  await stop(provider);
  await page.goto(`${url}/ui/`);
  await page.getByLabel('API key').fill(world.key);
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.locator('main#content')).toBeVisible();
});
