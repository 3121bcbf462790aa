import { expect, test } from 'vitest';
import { actorName } from './actor';

test('names cannot hide who an actor is', () => {
  const actors = {
    'user:ann@example.com [user_2]': 'ann@example.com · user_2',
    'key:user:ann@example.com [key_1]': 'user:ann@example.com · key_1',
    'user:ann [x [user_3]': 'ann [x · user_3',
    'key:belfry [key_4]': 'belfry · key_4',
    'key:ci [key_06f8m2tq5dtk1e7n9q0c3s5v7g]': 'ci · key_06f8m2tq5d…',
    belfry: 'Belfry',
  };
  for (const [actor, name] of Object.entries(actors)) expect(actorName(actor)).toBe(name);
  expect(actorName(undefined)).toBe('');
});
