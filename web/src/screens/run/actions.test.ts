import { describe, expect, it } from 'vitest';
import { ApiProblem } from '../../api/client';
import { told } from './actions';

describe('an action that is rejected', () => {
  it('shows the detail of the problem', () => {
    const conflict = new ApiProblem(409, { code: 'conflict', detail: 'the run is live' });
    for (const act of ['cancel', 'retry', 'redrive', 'discard'] as const) expect(told(act, conflict)).toBe(conflict);
  });
  it('explains a dead letter that is not found', () => {
    const missing = new ApiProblem(404, { code: 'not_found', request_id: 'r1', detail: 'no such dead letter' });
    const shown = told('redrive', missing) as ApiProblem;
    expect(shown.detail).toContain('no longer a dead letter');
    expect(shown.requestId).toBe('r1');
    expect(told('cancel', missing)).toBe(missing);
  });
});
