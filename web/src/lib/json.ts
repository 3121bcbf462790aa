// JSON whose numbers stay as they were written. JSON.parse would round integers beyond 2^53, and the payload of a run
// must be shown exactly as it is stored.

export class Raw {
  constructor(readonly source: string) {}
}

export type Exact = null | boolean | string | Raw | Exact[] | { [key: string]: Exact };

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

/** Parses JSON with numbers as Raw. */
export function parseExact(text: string): Exact {
  const revive: Reviver = (_key, value, context) =>
    typeof value === 'number' ? new Raw(context?.source ?? String(value)) : value;
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown) as Exact;
}

/** Writes with an indent, numbers as they were. */
export function formatExact(value: Exact, indent = ''): string {
  if (value instanceof Raw) return value.source;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const inner = indent + '  ';
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return `[\n${value.map((v) => inner + formatExact(v, inner)).join(',\n')}\n${indent}]`;
  }
  const keys = Object.keys(value);
  if (keys.length === 0) return '{}';
  return `{\n${keys.map((k) => `${inner}${JSON.stringify(k)}: ${formatExact(value[k]!, inner)}`).join(',\n')}\n${indent}}`;
}
