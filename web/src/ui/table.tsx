import { defaultRangeExtractor, useWindowVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent, type MouseEvent, type ReactNode } from 'react';
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
  className?: string | undefined;
};

type TableProps<T> = {
  label: string;
  rows: T[];
  id: (row: T) => string;
  /** What a row is called, for screen readers. Without it: the id. */
  name?: (row: T) => string;
  columns: Column<T>[];
  /** Enter, and a click anywhere on the row. */
  open?: (row: T) => void;
  /** x toggles the row. */
  selection?: { has: (row: T) => boolean; toggle: (row: T) => void; all: () => void; none: () => void; state: 'none' | 'some' | 'all' };
  rowClass?: (row: T) => string | undefined;
  /** Keys on the row with the focus, such as t for trigger. */
  keys?: Record<string, (row: T) => void>;
  /** Buttons at the right edge, shown while the row has the pointer or the focus. */
  actions?: (row: T) => ReactNode;
  /** Only rows near the window are in the page: for lists without an end. */
  virtual?: boolean;
  /** With virtual: how high a row is on phones, about. */
  phoneRow?: number;
  /** With virtual: the last rows are near. */
  onEnd?: () => void;
};

const phone = () => typeof window !== 'undefined' && window.innerWidth <= 720;

/** A table of one line per row. j and k move the focus, Enter opens, x selects. */
export function Table<T>({
  label, rows, id, name = id, columns, open, selection, rowClass, keys, actions, virtual = false, phoneRow = 37, onEnd,
}: TableProps<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [at, setAt] = useState(-1);
  const v = useRows(body, rows, id, at, virtual, phoneRow);
  const items = v.getVirtualItems();
  const shown = virtual ? items.map((x) => x.index).filter((i) => i < rows.length) : rows.map((_, i) => i);
  // The room of the rows that are not in the page, before each row and after the last one.
  const gaps = items.map((x, i) => x.start - (i === 0 ? v.options.scrollMargin : items[i - 1]!.end));
  const after = virtual && items.length > 0 ? v.getTotalSize() + v.options.scrollMargin - items[items.length - 1]!.end : 0;

  const near = virtual && rows.length > 0 && (shown[shown.length - 1] ?? 0) >= rows.length - 15;
  useEffect(() => {
    if (near) onEnd?.();
  }, [near, rows.length, onEnd]);

  const rowAt = (i: number) => body.current?.querySelector<HTMLTableRowElement>(`tr[data-index="${i}"]`);
  const focused = () => {
    const tr = document.activeElement?.closest<HTMLElement>('tr[data-index]');
    return tr && body.current?.contains(tr) ? Number(tr.dataset.index) : -1;
  };
  const move = (by: number) => {
    if (rows.length === 0) return;
    const from = focused();
    const to = from < 0 ? (by > 0 ? shown.find((i) => visible(rowAt(i))) ?? 0 : rows.length - 1) : from + by;
    const next = Math.min(Math.max(to, 0), rows.length - 1);
    const tr = rowAt(next);
    if (tr) return tr.focus();
    v.scrollToIndex(next);
    requestAnimationFrame(() => requestAnimationFrame(() => rowAt(next)?.focus()));
  };
  useShortcut('j', () => move(1));
  useShortcut('k', () => move(-1));
  useShortcut('x', () => {
    const row = rows[focused()];
    if (row) selection?.toggle(row);
  }, !!selection);
  const own = useRef(keys);
  useEffect(() => {
    own.current = keys;
  });
  const click = (row: T) => (e: MouseEvent) => {
    if (!open || (e.target as Element).closest('a, button, input, label, [role=menu]')) return;
    if (window.getSelection()?.toString()) return;
    open(row);
  };
  const press = (row: T) => (e: KeyboardEvent) => {
    if (e.target !== e.currentTarget || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === 'Enter' && open) open(row);
    else own.current?.[e.key]?.(row);
  };
  return (
    <div className={`${css.scroll} ${actions ? css.over : ''}`}>
      <table className={css.table} aria-rowcount={virtual ? rows.length + 1 : undefined}>
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
                className={`${c.right ? 'right' : ''} ${c.from ? css[c.from] : ''} ${c.className ?? ''}`}>{c.head}</th>
            ))}
            {actions && <th className={css.acts}><span className="sr">Actions</span></th>}
          </tr>
        </thead>
        <tbody ref={body} onFocus={() => setAt(focused())} onBlur={() => setAt(-1)}>
          {shown.map((n, at) => {
            const row = rows[n]!;
            return [
              virtual && gaps[at]! > 0.5 && <Gap key={`gap-${n}`} height={gaps[at]!} />,
              <tr key={id(row)} ref={virtual ? v.measureElement : undefined} data-index={n} aria-rowindex={virtual ? n + 2 : undefined}
                tabIndex={0}
                className={`${open ? css.open : ''} ${rowClass?.(row) ?? ''}`} data-selected={selection?.has(row) || undefined}
                onClick={click(row)} onKeyDown={press(row)}>
                {selection && (
                  <td className={css.check}>
                    <label><input type="checkbox" aria-label={`Select ${name(row)}`} checked={selection.has(row)}
                      onChange={() => selection.toggle(row)} /></label>
                  </td>
                )}
                {columns.map((c, i) => (
                  <td key={i} className={`${c.right ? 'right num' : ''} ${c.from ? css[c.from] : ''} ${c.className ?? ''}`}>{c.cell(row,
                    n)}</td>
                ))}
                {actions && <td className={css.acts}><div>{actions(row)}</div></td>}
              </tr>,
            ];
          })}
          {after > 0.5 && <Gap height={after} />}
        </tbody>
      </table>
    </div>
  );
}

// One cell: a span of all columns would bring hidden ones back on phones.
const Gap = ({ height }: { height: number }) => <tr aria-hidden="true" className={css.gap}><td style={{ height }} /></tr>;

const visible = (tr: HTMLElement | null | undefined): boolean => !!tr && tr.getBoundingClientRect().top >= 48;

/** Which rows are near the window. The row with the focus stays in the page, so that the focus is never lost. */
function useRows<T>(
  body: React.RefObject<HTMLTableSectionElement | null>, rows: T[], id: (row: T) => string, at: number, virtual: boolean, phoneRow: number,
) {
  const [margin, setMargin] = useState(0);
  useLayoutEffect(() => {
    if (!virtual || !body.current) return;
    const top = Math.round(body.current.getBoundingClientRect().top + window.scrollY);
    if (Math.abs(top - margin) > 1) setMargin(top);
  });
  return useWindowVirtualizer({
    count: rows.length,
    enabled: virtual,
    estimateSize: () => (phone() ? phoneRow : 37),
    overscan: 12,
    scrollMargin: margin,
    getItemKey: (i) => (rows[i] === undefined ? i : id(rows[i])),
    rangeExtractor: (range) => {
      const list = defaultRangeExtractor(range);
      if (at < 0 || at >= rows.length || list.includes(at)) return list;
      return [...list, at].sort((a, b) => a - b);
    },
  });
}
