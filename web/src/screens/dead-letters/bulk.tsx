import type { Schemas } from '../../api/client';
import { count, plural } from '../../lib/number';
import { BulkDialog, type Bulk } from '../../ui/bulk';
import { Mark } from '../../ui/mark';

type DeadGroup = Schemas['DeadLetterGroup'];

const kinds: Record<'redrive' | 'discard', Bulk> = {
  redrive: {
    path: '/api/v1/dead-letters:redrive',
    verb: 'Redrive',
    icon: 'redo',
    noun: ['dead letter', 'dead letters'],
    note: false,
    explain: 'Every run keeps its id and idempotency key and gets new attempts. Runs that succeed leave this list.',
  },
  discard: {
    path: '/api/v1/dead-letters:discard',
    verb: 'Discard',
    noun: ['dead letter', 'dead letters'],
    note: false,
    danger: true,
    explain: 'The runs stay failed in the history and can no longer be redriven.',
  },
};

/** Asks before the dead letters of a group are redriven or discarded. */
export function GroupDialog({
  kind,
  filter,
  group,
  close,
}: {
  kind: 'redrive' | 'discard';
  filter: Record<string, string>;
  group: DeadGroup;
  close: () => void;
}) {
  const since = group.since;
  const facts = since && (
    <div>
      <dt>Since then</dt>
      <dd>
        <span className="row">
          <Mark kind={since.failed > 0 ? 'failed' : 'succeeded'} label="" />
          {plural(since.succeeded, 'run')} succeeded, {count(since.failed)} failed
        </span>
      </dd>
    </div>
  );
  const words = Object.entries(filter).map(([k, v]): [string, string] => [
    k.slice(0, 1).toUpperCase() + k.slice(1).replaceAll('_', ' '),
    k === 'cause' ? (group.message ?? v) : v,
  ]);
  return <BulkDialog bulk={{ ...kinds[kind], facts }} scope={{ body: filter, words }} close={close} />;
}
