import { capped, count } from '../../lib/number';
import { share } from './limits';
import css from './queues.module.css';

/** How much of a limit is used: a number, and a bar if there is a limit. */
export function LimitBar({ used, more, limit, label }: { used: number; more?: boolean; limit?: number | undefined; label: string }) {
  if (!limit) return <span className={used === 0 && !more ? 'num dim' : 'num'}>{capped(used, more)}</span>;
  const part = share(used, limit);
  return (
    <span className={css.limit} data-full={part >= 1 || undefined}>
      <span className="num">{capped(used, more)}<span className="dim"> / {count(limit)}</span></span>
      <span className={css.bar} role="img" aria-label={`${label}: ${count(used)} of ${count(limit)}${part >= 1 ? ', full' : ''}`}>
        <i style={{ width: `${part * 100}%` }} />
      </span>
    </span>
  );
}
