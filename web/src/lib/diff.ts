export type DiffLine = { kind: 'same' | 'removed' | 'added'; text: string; before?: number; after?: number };

/** The difference of two texts by lines: the longest common part stays. Both are short, such as definitions of jobs. */
export function diffLines(before: string, after: string): DiffLine[] {
  const a = before.split('\n');
  const b = after.split('\n');
  const common = lengths(a, b);
  const out: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) out.push({ kind: 'same', text: a[i]!, before: ++i, after: ++j });
    else if (i < a.length && (j >= b.length || common[i + 1]![j]! >= common[i]![j + 1]!)) out.push({ kind: 'removed', text: a[i]!,
      before: ++i });
    else out.push({ kind: 'added', text: b[j]!, after: ++j });
  }
  return out;
}

/** How many lines the rests from i and j have in common. */
function lengths(a: string[], b: string[]): Uint16Array[] {
  const n = Array.from({ length: a.length + 2 }, () => new Uint16Array(b.length + 2));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) n[i]![j] = a[i] === b[j] ? n[i + 1]![j + 1]! + 1 : Math.max(n[i + 1]![j]!, n[i]![j + 1]!);
  }
  return n;
}
