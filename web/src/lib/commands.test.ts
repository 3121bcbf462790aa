import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commands } from './commands';

const sources = (readdirSync('src', { recursive: true }) as string[])
  .filter((f) => /\.tsx?$/.test(f) && !/\.(test|gen)\.ts/.test(f))
  .map((f) => [f, readFileSync(join('src', f), 'utf8')] as const);

it('shows no command that is not in this list', () => {
  const command = /<Command>belfry|command=("|\{['"`])belfry|<[Cc]ode>belfry \w+ /;
  const shown = sources.filter(([f, text]) => f !== 'lib/commands.ts' && command.test(text));
  expect(shown.map(([f]) => f)).toEqual([]);
});

it('quotes what a shell would split', () => {
  expect(commands.said(['job', 'trigger', 'a-b', '--at', '2026-01-01T00:00:00Z'])).toBe('belfry job trigger a-b --at 2026-01-01T00:00:00Z');
  expect(commands.said(['why', "it's; $(x)"])).toBe(`belfry why 'it'\\''s; $(x)'`);
  const word = "a b'c";
  for (const command of Object.values(commands).filter((c) => typeof c === 'function' && c !== commands.said))
    expect((command as (...words: string[]) => string)(word, word)).toMatch(/ 'a b'\\''c(-worker)?'( |$)/);
});

it('asks for the time of the node, not of the browser', () => {
  const own = ['api/live.tsx', 'lib/time.ts', 'screens/import/index.tsx']; // how long something takes
  expect(sources.filter(([, text]) => /Date\.now\(|new Date\(\)/.test(text)).map(([f]) => f).sort()).toEqual(own);
});
