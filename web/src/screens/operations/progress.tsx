import type { Schemas } from '../../api/client';
import { capped, count } from '../../lib/number';
import { Outcome, type Kind } from '../../ui/mark';
import css from './operations.module.css';

type Operation = Schemas['Operation'];

const kinds: Record<string, [Kind, string]> = {
  running: ['running', 'Running'],
  finished: ['succeeded', 'Finished'],
  aborted: ['cancelled', 'Aborted'],
  failed: ['failed', 'Failed'],
};

export function State({ operation }: { operation: Operation }) {
  const [kind, text] = kinds[operation.state] ?? ['planned', operation.state];
  return <Outcome kind={kind}>{text}</Outcome>;
}

/** Done and failed as parts of a bar. */
export function Progress({ operation: o, big }: { operation: Operation; big?: boolean }) {
  const total = Math.max(o.count, o.done + o.failed, 1);
  const text = `${count(o.done)} done, ${count(o.failed)} failed of ${capped(o.count, o.more)}`;
  return (
    <span
      className={css.progress}
      data-big={big || undefined}
      data-state={o.state}
      role="progressbar"
      aria-label="Progress"
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={o.done + o.failed}
      aria-valuetext={text}
    >
      <i style={{ width: `${(o.done / total) * 100}%` }} />
      <i data-failed style={{ width: `${(o.failed / total) * 100}%` }} />
    </span>
  );
}
