import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { seed } from './seed';
import { until, World } from './world';

// One world for all tests. It has an outage behind it: the node was stopped until occurrences were missed. BELFRY_E2E_PLACE names the
// file of another one, which is used as it is: for pictures of a node that has run for a while, or to try a test again.
export default async function setup(): Promise<() => Promise<void>> {
  if (process.env.BELFRY_E2E_PLACE) return async () => {};
  const began = Date.now();
  const world = new World();
  await world.start();
  try {
    await seed(world);
    await world.stopNode();
    await new Promise((done) => setTimeout(done, 12_000)); // an occurrence counts as missed 10 s after it came due
    await world.startNode();
    await until('missed occurrences', () => missed(world));
  } catch (e) {
    await world.stop();
    throw e;
  }
  const file = join(mkdtempSync(join(tmpdir(), 'belfry-place-')), 'place.json');
  writeFileSync(file, JSON.stringify({ url: world.url, key: world.key, targets: world.targets, login: world.loginURL }), { mode: 0o600 });
  process.env.BELFRY_E2E_PLACE = file;
  console.log(`The world is ready after ${Math.round((Date.now() - began) / 1000)} s: ${file}`);
  return () => world.stop();
}

async function missed(world: World): Promise<boolean> {
  const hour = 3600_000;
  const range = `from=${new Date(Date.now() - hour).toISOString()}&to=${new Date(Date.now() + hour / 60).toISOString()}`;
  const { items, buckets } = await world.call<{ items: { reason?: string }[]; buckets?: { missed: number }[] }>('GET', `/jobs/heartbeat/timeline?${range}`);
  return items.some((i) => /^(missed|unplanned)/.test(i.reason ?? '')) || (buckets ?? []).some((b) => b.missed > 0);
}
