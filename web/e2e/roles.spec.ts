import { call, expect, go, login, settled, test } from './fixture';

// A role sees no action that the server then refuses.

/** Actions by the role that they need. */
const actions: Record<'operator' | 'editor' | 'admin', RegExp> = {
  operator: /^(Trigger|Pause|Resume|Redrive|Discard|Cancel run|Retry|Run again|Backfill)/,
  editor: /^(New job|Import|Edit|Delete|Spread|Rollback|Roll back|Limits|Set secret|New secret)/,
  admin: /^(New key|Create key|Revoke key|Verify)/,
};
const order = ['viewer', 'operator', 'editor', 'admin'] as const;

for (const role of ['viewer', 'operator', 'editor'] as const) {
  test(`a key of role ${role}`, async ({ page }) => {
    const refused: string[] = [];
    page.on('response', (r) => { if (r.status() === 403) refused.push(`${r.request().method()} ${r.url()}`); });
    await login(page, role);
    const job = await call<{ id: string }>('GET', '/jobs/nightly-report');
    const letters = await call<{ items: { run: string }[] }>('GET', '/dead-letters?page_size=1');
    const paths = ['/', '/jobs', `/jobs/${job.id}`, '/runs', '/runs?state=failed', `/runs/${letters.items[0]!.run}`, '/dead-letters', '/load', '/queues', '/queues/media',
      '/operations', '/cluster', '/settings', `/jobs/${job.id}?tab=versions`, `/jobs/${job.id}?tab=dead`, '/settings?tab=secrets', ...(role === 'editor' ? ['/jobs/new', '/import'] : [])];
    for (const path of paths) {
      await go(page, path);
      await settled(page);
      const labels = await page.locator('button, a[href]:not(td a)').evaluateAll((all) =>
        all.filter((e) => !e.closest('nav') && (e as HTMLElement).offsetParent !== null).map((e) => (e.getAttribute('aria-label') ?? e.textContent ?? '').trim()));
      for (const need of order.slice(order.indexOf(role) + 1) as ('operator' | 'editor' | 'admin')[]) {
        expect(labels.filter((l) => actions[need].test(l)), `${path} shows actions of ${need}`).toEqual([]);
      }
    }
    expect(refused).toEqual([]);
  });
}
