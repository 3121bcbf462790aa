import { useEffect, useRef, useState, type KeyboardEvent } from 'react';
import { commands } from '../../lib/commands';
import { moveInGrid } from '../../lib/grid';
import { duration } from '../../lib/time';
import { Code } from '../../ui/control';
import { describe, lag, look, stateOf, type Cluster } from './facts';
import css from './cluster.module.css';

const width = 16;

type Props = { cluster: Cluster; chosen: number; choose: (partition: number) => void; node: number | null };

/** The partitions by owner. One stop for the Tab key; arrow keys move. */
export function PartitionGrid({ cluster, chosen, choose, node }: Props) {
  const now = Date.parse(cluster.database_time);
  const grid = useRef<HTMLDivElement>(null);
  const byKey = useRef(false);
  useEffect(() => {
    if (!byKey.current) return;
    byKey.current = false;
    grid.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
  }, [chosen]);
  const key = (e: KeyboardEvent) => {
    const to = moveInGrid(chosen, e.key, width, cluster.owners.length);
    if (to === null) return;
    e.preventDefault();
    byKey.current = true;
    choose(to);
  };
  const rows = Array.from({ length: Math.ceil(cluster.owners.length / width) }, (_, r) => r * width);
  return (
    <div className={css.frame}>
      <div className={css.head} aria-hidden="true">
        <span />
        {Array.from({ length: width }, (_, i) => (
          <span key={i}>{i}</span>
        ))}
      </div>
      <div role="grid" aria-label="Partitions by owner. Arrow keys move." ref={grid} onKeyDown={key}>
        {rows.map((first) => (
          <div role="row" key={first} className={css.row}>
            <span role="rowheader" className={css.number}>
              {first}
            </span>
            {cluster.owners.slice(first, first + width).map((o, i) => {
              const p = first + i;
              const state = stateOf(o, now);
              const seen = o.node === undefined ? null : look(o.node);
              return (
                <span
                  key={p}
                  role="gridcell"
                  className={`${css.tile} ${css.cell}`}
                  data-state={state}
                  data-tint={seen?.shade}
                  data-weave={seen?.pattern}
                  data-dim={(node !== null && o.node !== node) || undefined}
                  tabIndex={p === chosen ? 0 : -1}
                  aria-selected={p === chosen}
                  aria-label={describe(p, cluster)}
                  title={describe(p, cluster)}
                  onClick={() => choose(p)}
                />
              );
            })}
          </div>
        ))}
      </div>
    </div>
  );
}

/** The same as a table. */
export function PartitionTable({ cluster }: { cluster: Cluster }) {
  const [open, setOpen] = useState(false);
  const now = Date.parse(cluster.database_time);
  return (
    <details className={css.twin} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Show as table</summary>
      {open && (
        <div className={css.scroll} tabIndex={0} role="region" aria-label="Partitions as a table">
          <table>
            <thead>
              <tr>
                <th scope="col">Partition</th>
                <th scope="col">Owner</th>
                <th scope="col">Epoch</th>
                <th scope="col">Oldest due run</th>
              </tr>
            </thead>
            <tbody>
              {cluster.owners.map((o, p) => (
                <tr key={p}>
                  <th scope="row">{p}</th>
                  <td>{o.node === undefined ? 'no owner' : cluster.nodes[o.node]?.name}</td>
                  <td>{o.epoch}</td>
                  <td>{o.oldest_due_at ? `${duration(lag(o, now))} late` : 'none'}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p className="dim">
        The same in a terminal: <Code>{commands.cluster}</Code>
      </p>
    </details>
  );
}
