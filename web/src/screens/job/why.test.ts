import { expect, it } from 'vitest';
import { suggests } from './why';

it('offers what the server suggests for an occurrence', () => {
  const commands = [['run', 'get', 'run_1'], ['job', 'backfill', 'backup', '--from', '2026-05-01T00:00:00Z']];
  expect(suggests({ commands }, 'job', 'backfill')).toBe(true);
  expect(suggests({ commands }, 'job', 'trigger')).toBe(false);
  expect(suggests({}, 'job', 'backfill')).toBe(false);
});
