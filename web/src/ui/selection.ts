import { useState } from 'react';

/** The rows of a list that are ticked. They are forgotten when the list changes. */
export function useSelection<T>(id: (row: T) => string, list: string) {
  const [state, setState] = useState<{ list: string; ids: Set<string>; all: boolean }>({ list, ids: new Set(), all: false });
  const ids = state.list === list ? state.ids : new Set<string>();
  const all = state.list === list && state.all;
  const set = (next: Set<string>, every = false) => setState({ list, ids: next, all: every });
  return {
    size: ids.size,
    all,
    setAll: (every: boolean) => set(ids, every),
    ids: () => [...ids],
    clear: () => set(new Set()),
    /** For a Table. */
    of: (rows: T[]) => ({
      has: (row: T) => all || ids.has(id(row)),
      toggle: (row: T) => {
        const next = new Set(ids);
        if (!next.delete(id(row))) next.add(id(row));
        set(next);
      },
      all: () => set(new Set(rows.map(id))),
      none: () => set(new Set()),
      state: ids.size === 0 ? ('none' as const) : rows.every((r) => ids.has(id(r))) ? ('all' as const) : ('some' as const),
    }),
  };
}
