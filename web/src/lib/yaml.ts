import { Document, isAlias, isMap, isScalar, isSeq, LineCounter, parseAllDocuments, Scalar, visit, type Node } from 'yaml';
import { Raw, TextError, type Exact, type ExactObject } from './json';

// YAML as `belfry apply` reads it: numbers stay as they were written, dates are strings, and what JSON cannot say is
// refused. The rules are those of the command line, so that a file means the same in both.

const maxDepth = 64;
const maxNodes = 200_000;

/** A number is written as its source. */
const rawTag = {
  identify: (v: unknown) => v instanceof Raw,
  default: true,
  tag: 'tag:yaml.org,2002:float',
  resolve: (text: string) => text,
  stringify: (node: Scalar) => (node.value as Raw).source,
};

/** One job as YAML. */
export function toYAML(value: Exact): string {
  const doc = new Document(value, {
    customTags: (tags) => [rawTag as never, ...tags],
    compat: 'yaml-1.1', // quotes what older readers would misread, such as no and 1_000
    aliasDuplicateObjects: false,
  });
  visit(doc, {
    Scalar(_key, node) {
      // The command line would read 1e400 as a string, -0 as 0, and << as a merge.
      if (node.value instanceof Raw && (node.value.source === '-0' || !Number.isFinite(Number(node.value.source))))
        node.tag = 'tag:yaml.org,2002:float';
      if (typeof node.value === 'string' && quoted.test(node.value)) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  return doc.toString({ lineWidth: 0 }).replace(unprintable, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

// Characters that readers fold or refuse if they are not escaped. Texts with them are in double quotes.
const unprintable = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;

// Texts that are not the same after a plain or block scalar is read again.
const quoted = /^<<$|^=$|[^\P{C}\n]|[\u2028\u2029\ufeff]|^\s|\s$/u;

/** A value of a file, and the line on which it begins. */
export type Item = { line: number; value: Exact };

/** The documents of a text, lists taken apart: each is a job. The error is a TextError. */
export function fromYAML(text: string): Item[] {
  const lines = new LineCounter();
  const docs = parseAllDocuments(text, {
    version: '1.2',
    schema: 'core',
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: false,
    logLevel: 'silent',
  });
  if (!Array.isArray(docs)) return [];
  const out: Item[] = [];
  for (const doc of docs) {
    const wrong = doc.errors[0];
    if (wrong) {
      const at = lines.linePos(wrong.pos[0]);
      throw new TextError(wrong.message.replace(/\.?$/, '.'), at.line, at.col);
    }
    const reader = new Reader(doc, lines);
    const root = doc.contents as Node | null;
    if (root === null || (isScalar(root) && root.value === null)) continue; // an empty document
    if (isSeq(root)) {
      for (const item of root.items) out.push({ line: reader.line(item as Node), value: reader.read(item as Node, 0) });
    } else out.push({ line: reader.line(root), value: reader.read(root, 0) });
  }
  return out;
}

class Reader {
  private nodes = 0;
  constructor(
    private readonly doc: { toJS: unknown },
    private readonly lines: LineCounter,
  ) {}

  private at = (n: Node | null) => this.lines.linePos(n?.range?.[0] ?? 0);
  line = (n: Node | null): number => Math.max(this.at(n).line, 1);

  private fail(n: Node | null, message: string): never {
    const at = this.at(n);
    throw new TextError(message, at.line, at.col);
  }

  read(n: Node | null, depth: number): Exact {
    if (depth > maxDepth || ++this.nodes > maxNodes)
      this.fail(n, 'It is too deep or too large. Do its aliases contain each other?');
    if (n === null) return null;
    if (isAlias(n)) {
      const to = n.resolve(this.doc as Document);
      if (!to) this.fail(n, `There is no anchor ${n.source}.`);
      return this.read(to, depth + 1);
    }
    if (isSeq(n)) return n.items.map((item) => this.read(item as Node | null, depth + 1));
    if (isMap(n)) {
      const out: ExactObject = Object.create(null) as ExactObject;
      for (const pair of n.items) {
        const key = this.key(pair.key as Node | null, n);
        if (Object.hasOwn(out, key)) this.fail(pair.key as Node, `${key} is there twice.`);
        out[key] = this.read(pair.value as Node | null, depth + 1);
      }
      return out;
    }
    if (isScalar(n)) return this.scalar(n);
    return this.fail(n, 'It cannot be read.');
  }

  private key(n: Node | null, map: Node): string {
    if (n === null) return '';
    if (!isScalar(n)) this.fail(n ?? map, 'A key must be a string.');
    if (n.value === '<<' && n.type === Scalar.PLAIN)
      this.fail(n, '<< is not supported. Write the fields, or use an alias as a value.');
    return typeof n.value === 'string' ? n.value : (n.source ?? String(n.value));
  }

  private scalar(n: Scalar): Exact {
    if (n.tag && !/^tag:yaml\.org,2002:(str|int|float|bool|null|timestamp)$/.test(n.tag))
      this.fail(n, `${n.tag} is not supported.`);
    const v = n.value;
    if (v === null || v === undefined) return null;
    if (typeof v === 'boolean') return v;
    const source = n.source ?? String(v);
    const tagged = /:(int|float)$/.test(n.tag ?? '');
    if (typeof v === 'string' && !tagged) return n.type === Scalar.PLAIN && !n.tag ? (older(source) ?? v) : v;
    const found = plainNumber(source);
    if (!found) this.fail(n, `${source} is not a number of JSON. Put it in quotes if it is a string.`);
    return found;
  }
}

const json = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** A number as the command line writes it into JSON. */
function plainNumber(source: string): Raw | undefined {
  if (json.test(source)) return new Raw(source);
  const m = /^([-+]?)(0[xX][0-9a-fA-F]+|0o?[0-7]+|0b[01]+|\d+)$/.exec(source);
  if (m) {
    const digits = /^0[0-7]+$/.test(m[2]!) ? '0o' + m[2]!.slice(1) : m[2]!.replace(/^0+(?=\d)/, '');
    return new Raw((m[1] === '-' ? '-' : '') + BigInt(digits).toString());
  }
  const n = Number(source);
  return Number.isFinite(n) ? new Raw(JSON.stringify(n)) : undefined;
}

/** Numbers that only older versions of YAML know, and the command line too: 1_000 and 0b101. */
function older(source: string): Raw | undefined {
  if (!/^[-+.]?\d/.test(source) || !/_|^[-+]?0b/.test(source)) return undefined;
  const plain = source.replaceAll('_', '');
  if (/^[-+]?(?:0[xX][0-9a-fA-F]+|0o[0-7]+|0b[01]+|\d+)$/.test(plain)) return plainNumber(plain);
  return /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/.test(plain) ? plainNumber(plain) : undefined;
}
