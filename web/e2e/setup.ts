import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { seed } from './seed';
import { World } from './world';

// One world for all tests. It has an outage behind it: the node was stopped for some seconds. BELFRY_E2E_PLACE names the file of
// another one, which is used as it is: for pictures of a node that has run for a while.
export default async function setup(): Promise<() => Promise<void>> {
  if (process.env.BELFRY_E2E_PLACE) return async () => {};
  const world = new World();
  await world.start();
  try {
    await seed(world);
    await world.stopNode();
    await new Promise((done) => setTimeout(done, 20_000)); // the outage itself: four occurrences of the probe
    await world.startNode();
  } catch (e) {
    await world.stop();
    throw e;
  }
  const file = join(mkdtempSync(join(tmpdir(), 'belfry-place-')), 'place.json');
  writeFileSync(file, JSON.stringify({ url: world.url, key: world.key, targets: world.targets, login: world.loginURL }), { mode: 0o600 });
  process.env.BELFRY_E2E_PLACE = file;
  return () => world.stop();
}
