// JSON whose numbers stay as they were written. JSON.parse would round integers beyond 2^53, and the payload of a run
// must be shown exactly as it is stored. The parser is our own: not every browser passes the source of a number to a
// reviver, and their errors name no line.

export class Raw {
  constructor(readonly source: string) {}
}

export type ExactObject = { [key: string]: Exact };
export type Exact = null | boolean | string | Raw | Exact[] | ExactObject;

export const isObject = (v: Exact | undefined): v is ExactObject =>
  typeof v === 'object' && v !== null && !Array.isArray(v) && !(v instanceof Raw);

/** What is wrong with a text, and where. Lines and columns count from 1. */
export class TextError extends Error {
  constructor(
    message: string,
    readonly line: number,
    readonly column: number,
  ) {
    super(message);
    this.name = 'TextError';
  }
}

const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const string = /"(?:[^"\\\n]|\\.)*"/y;
const space = /[ \t\n\r]*/y;
const maxDepth = 500;

class Parser {
  private at = 0;
  constructor(private readonly text: string) {}

  parse(): Exact {
    const v = this.value(0);
    this.match(space);
    if (this.at < this.text.length) this.fail('The text goes on after the end of the JSON.');
    return v;
  }

  private fail(message: string): never {
    const before = this.text.slice(0, this.at).split('\n');
    throw new TextError(message, before.length, before[before.length - 1]!.length + 1);
  }

  private match(form: RegExp): string | undefined {
    form.lastIndex = this.at;
    const found = form.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }

  /** Consumes a character after white space. */
  private take(c: string): boolean {
    this.match(space);
    if (this.text[this.at] !== c) return false;
    this.at++;
    return true;
  }

  private value(depth: number): Exact {
    if (depth > maxDepth) this.fail(`It is nested more than ${maxDepth} deep.`);
    if (this.take('{')) return this.object(depth);
    if (this.take('[')) return this.list(depth);
    const c = this.text[this.at];
    if (c === '"') return this.string();
    const n = this.match(number);
    if (n !== undefined) return new Raw(n);
    for (const [word, v] of [
      ['true', true],
      ['false', false],
      ['null', null],
    ] as const) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return v;
      }
    }
    return this.fail(
      c === undefined
        ? 'The JSON ends too early: a value is missing.'
        : `A value is expected, not ${show(c)}. Strings need double quotes.`,
    );
  }

  private string(): string {
    const start = this.at;
    const s = this.match(string);
    if (s === undefined) this.fail('The string is not closed.');
    try {
      return JSON.parse(s) as string;
    } catch {
      this.at = start;
      return this.fail('The string has an escape that JSON does not know, or a character that must be escaped.');
    }
  }

  private object(depth: number): ExactObject {
    const out: ExactObject = Object.create(null) as ExactObject; // a key may be __proto__
    if (this.take('}')) return out;
    do {
      this.match(space);
      if (this.text[this.at] !== '"') this.fail('A key in double quotes is expected.');
      const start = this.at;
      const key = this.string();
      if (Object.hasOwn(out, key)) {
        this.at = start;
        this.fail(`The key ${show(key)} is there twice.`);
      }
      if (!this.take(':')) this.fail('A colon is expected after the key.');
      out[key] = this.value(depth + 1);
    } while (this.take(','));
    if (!this.take('}')) this.fail('A comma or } is expected.');
    return out;
  }

  private list(depth: number): Exact[] {
    const out: Exact[] = [];
    if (this.take(']')) return out;
    do out.push(this.value(depth + 1));
    while (this.take(','));
    if (!this.take(']')) this.fail('A comma or ] is expected.');
    return out;
  }
}

const show = (text: string) => JSON.stringify(text.length > 40 ? text.slice(0, 40) + '…' : text);

/** Parses JSON with numbers as Raw. The error is a TextError. */
export const parseExact = (text: string): Exact => new Parser(text).parse();

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

/** Writes on one line, numbers as they were. */
export function compactExact(value: Exact): string {
  if (value instanceof Raw) return value.source;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(compactExact).join(',')}]`;
  return `{${Object.keys(value)
    .map((k) => `${JSON.stringify(k)}:${compactExact(value[k]!)}`)
    .join(',')}}`;
}

/** Whether two values are written the same, whatever the order of their keys. */
export function equalExact(a: Exact | undefined, b: Exact | undefined): boolean {
  if (a === b) return true;
  if (a instanceof Raw && b instanceof Raw) return a.source === b.source;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((v, i) => equalExact(v, b[i]));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((k) => Object.hasOwn(b, k) && equalExact(a[k], b[k]));
}
