import { expect, it } from 'vitest';
import { ApiProblem } from './client';
import { unanswered } from './live';

it('data is stale if the node did not answer, and not if it rejected a request', () => {
  const wrong = (status: number) => unanswered(new ApiProblem(status, {}));
  expect([400, 401, 403, 404, 409, 412, 422].filter(wrong)).toEqual([]);
  expect([0, 429, 500, 503].filter((status) => !wrong(status))).toEqual([]);
  expect(unanswered(new TypeError('Failed to fetch'))).toBe(true);
});
