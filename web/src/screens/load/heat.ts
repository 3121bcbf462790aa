// The load as rows of hours and columns of minutes.

export type Cell = { at: number; count: number };
export type Row = { hour: number; cells: (Cell | null)[] };

const minute = 60_000;
const hour = 60 * minute;

/** Rows of 60 cells, one for each hour that the range touches. Minutes outside of the range are null. */
export function rowsOf(from: number, counts: number[]): Row[] {
  const rows: Row[] = [];
  counts.forEach((count, i) => {
    const at = from + i * minute;
    const start = Math.floor(at / hour) * hour;
    let row = rows[rows.length - 1];
    if (!row || row.hour !== start) {
      row = { hour: start, cells: Array.from({ length: 60 }, () => null) };
      rows.push(row);
    }
    row.cells[(at - start) / minute] = { at, count };
  });
  return rows;
}

export function median(counts: number[]): number {
  if (counts.length === 0) return 0;
  const sorted = counts.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** The counts that the shades reach from and to. */
export type Scale = { low: number; top: number; capacity?: number | undefined };

export function scaleOf(counts: number[], capacity?: number): Scale {
  const some = counts.filter((n) => n > 0);
  return { low: Math.min(...some, Infinity), top: Math.max(...some, 1), capacity };
}

/**
 * The shade of a count, 0 to 5, by its logarithm between the smallest and the largest count. Over capacity it is 6, and
 * over twice the capacity 7.
 */
export function shade(count: number, { low, top, capacity }: Scale): number {
  if (capacity && count > 2 * capacity) return 7;
  if (capacity && count > capacity) return 6;
  if (count <= 0) return 0;
  if (top <= low) return 1;
  return Math.min(5, 1 + Math.floor((4 * Math.log(count / low)) / Math.log(top / low) + 1e-9));
}

/** Where an arrow key leads from a cell of the grid; null: nowhere. */
export function move(rows: Row[], at: number, key: string): number | null {
  const steps: Record<string, number> = { ArrowLeft: -minute, ArrowRight: minute, ArrowUp: -hour, ArrowDown: hour };
  const first = rows[0]?.cells.find((c) => c)?.at;
  const last = rows[rows.length - 1]?.cells.findLast((c) => c)?.at;
  if (first === undefined || last === undefined) return null;
  const row = rows.find((r) => at >= r.hour && at < r.hour + hour);
  let to: number;
  if (key === 'Home') to = row?.cells.find((c) => c)?.at ?? first;
  else if (key === 'End') to = row?.cells.findLast((c) => c)?.at ?? last;
  else if (key === 'PageUp') to = first;
  else if (key === 'PageDown') to = last;
  else if (steps[key] !== undefined) to = at + steps[key];
  else return null;
  return to < first || to > last ? null : to;
}
