import { call, expect, go, login, place, settled, test } from './fixture';

// Everything that users and targets write is text. None of it becomes markup, a link with a script, or a request.

const corpus = [
  `<script>window.pwned=1</script>`, `<img src=x onerror="window.pwned=1">`, `"><svg onload=window.pwned=1>`, `javascript:window.pwned=1`,
  `{{constructor.constructor('window.pwned=1')()}}`, `\${window.pwned=1}`, `</title><script>window.pwned=1</script>`, `'-window.pwned=1-'`,
  `<a href="javascript:window.pwned=1">x</a>`, `<iframe srcdoc="<script>parent.pwned=1</script>">`, `<style>*{background:url(http://127.0.0.1:1/x)}</style>`,
];

test('hostile text stays text on every screen', async ({ page }) => {
  const { targets } = place();
  const ids: string[] = [];
  for (const [i, text] of corpus.entries()) {
    const job = await call<{ id: string }>('POST', '/jobs', {
      name: `${i} ${text}`.slice(0, 200), description: text, owner: text, schedule: 'every 24h', payload: { [text]: `${text}\u202Egnp.exe` },
      target: { kind: 'http', config: { url: `${targets}/echo?q=${encodeURIComponent(text)}` } }, retry: { max_attempts: 1 }, queue: 'hostile',
    });
    ids.push(job.id);
    await call('POST', `/jobs/${job.id}:trigger`, {});
    await call('POST', `/jobs/${job.id}:pause`, { note: text });
  }
  await call('POST', '/keys', { name: corpus[0], role: 'viewer' });
  const operation = await call<{ id: string }>('POST', '/jobs:resume', { filter: { name: corpus[0] }, note: corpus[1] });
  await login(page);
  await expect.poll(async () => (await call<{ items: unknown[] }>('GET', '/dead-letters?queue=hostile&page_size=100')).items.length).toBe(corpus.length);
  const letters = await call<{ items: { run: string }[] }>('GET', '/dead-letters?queue=hostile&page_size=100');
  const paths = ['/', '/jobs?name=%3Cscript', '/runs', '/dead-letters?queue=hostile', '/load', '/queues/hostile', '/operations', `/operations/${operation.id}`, '/audit', '/settings',
    `/jobs?name=${encodeURIComponent(corpus[1]!)}`, `/runs/${encodeURIComponent(corpus[0]!)}`, `/jobs/${encodeURIComponent(corpus[2]!)}`, '/cluster', '/import',
    ...ids.flatMap((id, i) => [`/jobs/${id}`, `/runs/${letters.items[i]!.run}`]), `/jobs/${ids[0]}?tab=definition`, `/jobs/${ids[0]}/edit`];
  for (const path of paths) {
    await go(page, path);
    await settled(page);
    expect(await page.evaluate(() => 'pwned' in window), path).toBe(false);
    expect(await page.locator('a[href^="javascript:" i], iframe, main script').count(), path).toBe(0);
  }
  for (const id of ids) await call('DELETE', `/jobs/${id}`);
});

test('a page of another origin cannot act with the session', async ({ page, context }) => {
  await login(page);
  const { url } = place();
  const cookies = await context.cookies();
  const cookie = cookies.filter((c) => c.httpOnly).map((c) => `${c.name}=${c.value}`).join('; ');
  expect(cookie).not.toBe('');
  const tries: Record<string, string>[] = [
    { Cookie: cookie, Origin: 'http://evil.example', 'Belfry-UI': '1' }, { Cookie: cookie, 'Sec-Fetch-Site': 'cross-site', 'Belfry-UI': '1' }, { Cookie: cookie, Origin: url },
  ];
  for (const headers of tries) {
    const r = await fetch(`${url}/api/v1/jobs/sla-probe:trigger`, { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: '{}' });
    expect(r.status, JSON.stringify(headers)).toBe(403);
  }
});
