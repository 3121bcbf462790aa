import { useEffect, useRef, type ReactNode } from 'react';
import { useShortcut } from '../frame/keys';
import css from './table.module.css';

export type Column<T> = {
  head: ReactNode;
  cell: (row: T, index: number) => ReactNode;
  /** A CSS width, for the fixed layout. */
  width?: string;
  right?: boolean;
  /** Hidden below this width of the window. */
  from?: 'tablet' | 'desktop' | 'wide';
};

type TableProps<T> = {
  label: string;
  rows: T[];
  id: (row: T) => string;
  columns: Column<T>[];
  /** Enter, and a click anywhere on the row. */
  open?: (row: T) => void;
  /** x toggles the row. */
  selection?: { has: (row: T) => boolean; toggle: (row: T) => void; all: () => void; none: () => void; state: 'none' | 'some' | 'all' };
  rowClass?: (row: T) => string | undefined;
  /** Keys on the row with the focus, such as t for trigger. */
  keys?: Record<string, (row: T) => void>;
};

/** A table of one line per row. j and k move the focus, Enter opens, x selects. */
export function Table<T>({ label, rows, id, columns, open, selection, rowClass, keys }: TableProps<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const focused = () => {
    const tr = document.activeElement?.closest('tr');
    return tr && body.current?.contains(tr) ? [...body.current.rows].indexOf(tr as HTMLTableRowElement) : -1;
  };
  const move = (by: number) => {
    const n = body.current?.rows.length ?? 0;
    if (n === 0) return;
    const at = focused();
    body.current?.rows[Math.min(Math.max(at < 0 ? (by > 0 ? 0 : n - 1) : at + by, 0), n - 1)]?.focus();
  };
  const current = (act: (row: T) => void) => () => {
    const row = rows[focused()];
    if (row) act(row);
  };
  useShortcut('j', () => move(1));
  useShortcut('k', () => move(-1));
  useShortcut('x', current((row) => selection?.toggle(row)), !!selection);
  const own = useRef(keys);
  useEffect(() => {
    own.current = keys;
  });
  return (
    <div className={css.scroll}>
      <table className={css.table}>
        <caption className="sr">{label}</caption>
        <thead>
          <tr>
            {selection && (
              <th className={css.check}>
                <input type="checkbox" aria-label="Select all rows shown" checked={selection.state === 'all'}
                  ref={(e) => { if (e) e.indeterminate = selection.state === 'some'; }}
                  onChange={() => (selection.state === 'all' ? selection.none() : selection.all())} />
              </th>
            )}
            {columns.map((c, i) => (
              <th key={i} scope="col" style={c.width ? { width: c.width } : undefined}
                className={`${c.right ? 'right' : ''} ${c.from ? css[c.from] : ''}`}>{c.head}</th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {rows.map((row, n) => (
            <tr key={id(row)} tabIndex={0} className={`${open ? css.open : ''} ${rowClass?.(row) ?? ''}`}
              data-selected={selection?.has(row) || undefined}
              onClick={(e) => {
                if (!open || (e.target as Element).closest('a, button, input, label')) return;
                if (window.getSelection()?.toString()) return;
                open(row);
              }}
              onKeyDown={(e) => {
                if (e.target !== e.currentTarget || e.ctrlKey || e.metaKey || e.altKey) return;
                if (e.key === 'Enter' && open) open(row);
                else own.current?.[e.key]?.(row);
              }}>
              {selection && (
                <td className={css.check}>
                  <input type="checkbox" aria-label={`Select ${id(row)}`} checked={selection.has(row)} onChange={() => selection.toggle(row)} />
                </td>
              )}
              {columns.map((c, i) => (
                <td key={i} className={`${c.right ? 'right num' : ''} ${c.from ? css[c.from] : ''}`}>{c.cell(row, n)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
