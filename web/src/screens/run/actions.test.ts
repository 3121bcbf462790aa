import { describe, expect, it } from 'vitest';
import { ApiProblem } from '../../api/client';
import { problemOf } from './actions';

describe('an action that is rejected', () => {
  it('shows the detail of the problem', () => {
    const conflict = new ApiProblem(409, { code: 'conflict', detail: 'the run is live' });
    for (const act of ['cancel', 'retry', 'redrive', 'discard'] as const) expect(problemOf(act, conflict)).toBe(conflict);
  });
  it('explains a dead letter that is not found', () => {
    const missing = new ApiProblem(404, { code: 'not_found', request_id: 'r1', detail: 'no such dead letter' });
    const shown = problemOf('redrive', missing) as ApiProblem;
    expect(shown.detail).toContain('no longer a dead letter');
    expect(shown.requestId).toBe('r1');
    expect(problemOf('cancel', missing)).toBe(missing);
  });
});
