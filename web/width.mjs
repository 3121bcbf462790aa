// Fails if a line of the given directories is wider than 140 columns.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const most = 140;
let found = 0;
for (const dir of process.argv.slice(2)) {
  for (const name of readdirSync(dir, { recursive: true })) {
    if (!/\.(tsx?|css)$/.test(name) || name.endsWith('.gen.ts')) continue;
    const lines = readFileSync(join(dir, name), 'utf8').split('\n');
    for (const [i, line] of lines.entries()) {
      if ([...line].length <= most) continue;
      console.error(`${join(dir, name)}:${i + 1}: ${[...line].length} columns, at most ${most}`);
      found++;
    }
  }
}
process.exit(found > 0 ? 1 : 0);
