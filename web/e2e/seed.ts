import { until, type World } from './world';

// The story that the tests and the screenshots share: a team's jobs, one broken target, a queue without a worker, a paused queue, a
// night on which clocks change, and a minute in which too much is due.

type Job = Record<string, unknown> & { name: string };

export function jobs(targets: string): Job[] {
  const http = (path: string) => ({ kind: 'http', config: { url: targets + path } });
  const cron = (expression: string, timezone = 'UTC') => ({ cron: expression, timezone });
  const job = (name: string, schedule: unknown, target: unknown, team: string, more: object = {}): Job =>
    ({ name, schedule, target, labels: { team, env: 'prod' }, ...more });
  const once = { retry: { max_attempts: 2, backoff: 'none' } };
  const list: Job[] = [
    job('sla-probe', 'every 5s', http('/ok'), 'platform', { queue: 'probes', description: 'Probes the public status page.', missed: { policy: 'skip' } }),
    job('heartbeat', 'every 1s', http('/ok'), 'platform', { queue: 'probes', missed: { policy: 'skip' } }),
    job('usage-rollup', 'every 1m', http('/ok'), 'billing'),
    job('sync-crm', 'every 10s', http('/crm'), 'sales', { queue: 'sync', ...once }),
    job('invoice-batch', 'every 5s', http('/billing/invoices'), 'billing', { queue: 'billing', ...once, payload: { batch: 9007199254740993n.toString() } }),
    job('payouts-reconcile', 'every 10s', http('/billing/payouts'), 'billing', { queue: 'billing', ...once }),
    job('order-check', 'every 20s', http('/bad'), 'shop', { retry: { max_attempts: 1 } }),
    job('nightly-report', cron('30 2 * * *', 'Europe/Berlin'), http('/report'), 'fin', { queue: 'reports', owner: 'finance', timeout: '90s' }),
    job('warehouse-load', 'every 15s', { kind: 'worker', config: { handler: 'warehouse.load' } }, 'data', { queue: 'etl' }),
    job('thumbnail-batch', 'every 30s', { kind: 'worker', config: { handler: 'media.thumbnail' } }, 'web', { queue: 'media' }),
    job('fx-rates', cron('*/15 8-18 * * 1-5', 'Europe/London'), http('/ok'), 'fin'),
    job('email-digest-us', cron('0 17 * * 1-5', 'America/New_York'), http('/ok'), 'growth', { queue: 'email' }),
    job('month-end-close', { rrule: 'FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=23', timezone: 'Europe/Berlin' }, http('/ok'), 'fin', { queue: 'reports' }),
    job('sitemap', cron('0 0 * * 3', 'Asia/Kolkata'), http('/ok'), 'web'),
    job('gdpr-erasure', cron('0 3 * * *', 'Europe/London'), http('/ok'), 'legal'),
    job('search-reindex', cron('10 */6 * * *'), http('/slow'), 'search', { queue: 'search' }),
    job('cache-warm', 'every 7s', http('/slow/cache'), 'web', { overlap: 'skip' }),
    job('import-vendor-prices', 'every 20m', http('/ok'), 'catalog', { queue: 'imports' }),
    job('import-vendor-stock', 'every 20s', http('/gone'), 'catalog', { queue: 'imports' }),
    job('certificate-renew', 'every 168h', http('/ok'), 'platform'),
    job('release-announcement', '2027-01-31T09:00:00Z', http('/ok'), 'growth'),
    job('backup-postgres', cron('15 1 * * *'), http('/ok'), 'platform', {
      schedule: { cron: '15 1 * * *', calendars: [{ dates: ['12-24', '12-25', '12-31'] }] },
    }),
  ];
  for (let i = 0; i < 150; i++) list.push(job(`tenant-${String(i).padStart(3, '0')}-export`, cron('0 0 * * *'), http('/ok'), 'exports', { queue: 'exports' }));
  for (let i = 0; i < 40; i++) list.push(job(`feed-partner-${i}`, cron(`${(i * 7) % 60} * * * *`), http('/ok'), 'partners', { queue: 'feeds' }));
  return list;
}

export async function seed(world: World): Promise<void> {
  const lines = jobs(world.targets).map((j) => JSON.stringify(j)).join('\n');
  const result = await world.call<{ created: number; failed?: number; items: { problem?: unknown }[] }>('POST', '/jobs:bulk', lines, 'application/x-ndjson');
  if (result.created !== jobs('').length) throw new Error(JSON.stringify(result.items.filter((i) => i.problem)).slice(0, 2000));
  await world.work('etl', 'warehouse.load');
  await world.call('PUT', '/queues/billing', { max_running: 10 });
  await world.call('POST', '/jobs/import-vendor-prices:pause', { note: 'The vendor changes its price list until Monday.' });
  await world.call('POST', '/queues/exports:pause', { note: 'Maintenance of the export store.' });
  await world.call('POST', '/jobs:pause', { filter: { name: 'sitemap' }, note: 'The site moves.' });
  const day = 24 * 3600 * 1000;
  const at = (days: number) => new Date(Math.floor(Date.now() / day) * day + days * day).toISOString();
  await world.call('POST', '/jobs/nightly-report:backfill', { from: at(-30), to: at(0), pace: '0s' });
  await world.call('PATCH', '/jobs/nightly-report', { description: 'Sends the sales report to finance.', timeout: '2m' }, 'application/merge-patch+json');
  await until('dead letters', async () => {
    const list = await world.call<{ items: unknown[] }>('GET', '/dead-letters?page_size=20');
    return list.items.length >= 5;
  });
  await until('the reports', async () => {
    const list = await world.call<{ items: { state: string }[] }>('GET', '/jobs/nightly-report/runs?page_size=100');
    return list.items.filter((r) => r.state === 'succeeded').length >= 25;
  });
}
