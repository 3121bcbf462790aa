import type { Schemas } from './client';

// Shapes of answers about operations whose description is not generated yet.

export type Operation = Omit<Schemas['Operation'], 'kind'> & { kind: string; note?: string; more?: boolean };

/** An item that an operation could not change. */
export type OperationItem = { job?: string; run?: string; name?: string; error: string; at: string };
