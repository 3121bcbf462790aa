import { Menu } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { api, idempotencyKey, unwrap, type Schemas } from '../api/client';
import { capped, count as format, plural } from '../lib/number';
import { useAction } from './action';
import { blockedBy, idsLimit, typedAbove } from './bulk-rules';
import { Button, TextButton } from './control';
import { Dialog } from './dialog';
import { Field } from './field';
import { Icon, type IconName } from './icon';
import { Took, When } from './when';
import css from './bulk.module.css';

export type Bulk = {
  /** Such as /api/v1/jobs:pause. */
  path: string;
  /** Of the button: "Pause". */
  verb: string;
  icon?: IconName;
  noun: [one: string, many: string];
  /** What happens to each of them. */
  explain: ReactNode;
  danger?: boolean;
  /** Of the button that closes the dialog, if "Cancel" could be mistaken for the action. */
  dismiss?: string;
  /** Per second; the default of the API is 50. */
  rate?: number;
  /** Whether the request takes a note. Default true. */
  note?: boolean;
  /** More about what it acts on. */
  facts?: ReactNode;
};

/** What it acts on: ids, or a filter in the form of the API and in words. */
export type BulkScope = { body: Record<string, unknown>; words: [name: string, value: string][] };

const post = <T,>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<T> =>
  unwrap<T>(api.POST(path as never, { body, headers } as never) as never);

/** The count of what matches, with a sample. */
type Preview = Schemas['BulkPreview'] | Schemas['DeadLetterCount'];
type SampleItem = Preview['sample'][number];

const idOf = (item: SampleItem): string => ('run' in item ? item.run : item.id);

/** Asks the server how many it would act on, shows them, and starts an operation. */
export function BulkDialog({ bulk, scope, close }: { bulk: Bulk; scope: BulkScope; close: () => void }) {
  const navigate = useNavigate();
  const [rate, setRate] = useState(String(bulk.rate ?? 50));
  const [note, setNote] = useState('');
  const [typed, setTyped] = useState('');
  const dry = useMutation<Preview, Error>({ mutationFn: () => post(bulk.path, { ...scope.body, dry_run: true }) });
  useEffect(() => {
    dry.mutate();
    // Counted once, when the dialog opens.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  // If the answer is lost, the next click repeats the request instead of starting a second operation.
  const sent = useRef({ body: '', key: '' });
  const begin = () => {
    const body = { ...scope.body, rate: Number(rate), ...(note ? { note } : {}) };
    const text = JSON.stringify(body);
    if (sent.current.body !== text) sent.current = { body: text, key: idempotencyKey() };
    return post<Schemas['Operation']>(bulk.path, body, { 'Idempotency-Key': sent.current.key });
  };
  const start = useAction<void, Schemas['Operation']>(begin, {
    quiet: true,
    done: (operation) => {
      close();
      void navigate({ to: '/operations/$operation', params: { operation: operation.id } });
    },
  });
  const found = dry.data;
  const [one, many] = bulk.noun;
  const n = found?.count ?? 0;
  const total = found ? `${capped(n, found.more)} ${n === 1 && !found.more ? one : many}` : many;
  const blocked = blockedBy({ count: found?.count, more: found?.more ?? false, rate, typed, many });
  return (
    <Dialog
      open
      close={close}
      wide
      danger={bulk.danger ?? false}
      {...(bulk.dismiss ? { dismiss: bulk.dismiss } : {})}
      title={`${bulk.verb} ${total}`}
      act={() => start.mutate()}
      busy={start.isPending}
      error={start.error ?? dry.error}
      blocked={dry.error ? 'The count failed' : blocked}
      action={found ? `${bulk.verb} ${total}` : bulk.verb}
    >
      <p>{bulk.explain}</p>
      <dl className={css.facts}>
        {scope.words.map(([name, value]) => (
          <div key={name + value}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        <div>
          <dt>Counted</dt>
          <dd>
            {found ? (
              <>
                {capped(n, found.more)}
                {found.more ? ', and more match' : ', exact'}
              </>
            ) : dry.error ? (
              '–'
            ) : (
              'counting…'
            )}
          </dd>
        </div>
        {found && found.sample.length > 0 && (
          <div>
            <dt>Such as</dt>
            <dd>
              {found.sample.map((x) => (
                <Sample key={idOf(x)} item={x} />
              ))}
            </dd>
          </div>
        )}
        {bulk.facts}
      </dl>
      <Field
        label="Rate"
        hint={
          found &&
          Number(rate) > 0 &&
          n > 0 && (
            <>
              {found.more ? 'at least ' : ''}
              <Took ms={Math.ceil(n / Number(rate)) * 1000} /> until the last one
            </>
          )
        }
      >
        <span className="row">
          <input
            className={css.rate}
            value={rate}
            data-autofocus={bulk.note === false || undefined}
            onChange={(e) => setRate(e.currentTarget.value)}
            inputMode="numeric"
          />
          per second
        </span>
      </Field>
      {bulk.note !== false && (
        <Field label="Note" aside="for the audit log">
          <input value={note} maxLength={500} onChange={(e) => setNote(e.currentTarget.value)} data-autofocus />
        </Field>
      )}
      {found && n > typedAbove && (
        <Field label={`Type ${n} to confirm`}>
          <input className="mono" value={typed} onChange={(e) => setTyped(e.currentTarget.value)} inputMode="numeric" autoComplete="off" />
        </Field>
      )}
      <p className="dim">You can abort it at any time. What is done stays done.</p>
    </Dialog>
  );
}

function Sample({ item }: { item: SampleItem }) {
  const name = 'run' in item ? (item.job_name ?? 'deleted job') : item.name;
  const state = 'run' in item || item.state === 'due' ? '' : `${item.state}, `;
  return (
    <span className={css.sample}>
      <span className="clip">{name ?? <code>{idOf(item)}</code>}</span>
      <span className="dim">
        {state}
        {item.due_at && (
          <>
            due <When at={item.due_at} utc={false} seconds />
          </>
        )}
      </span>
    </span>
  );
}

type BarProps = {
  noun: [one: string, many: string];
  selected: number;
  /** Whether all that match are chosen, not only the rows that are ticked. */
  all: boolean;
  setAll: (all: boolean) => void;
  clear: () => void;
  bulks: Bulk[];
  /** More actions, behind a menu. */
  rest?: Bulk[];
  scope: (all: boolean, bulk: Bulk) => BulkScope;
  /** Why not all that match can be chosen. */
  allBlocked?: string | undefined;
  /** Whether a dialog is open. */
  onOpen?: (open: boolean) => void;
};

/** The bar above a list while rows are selected: act on these, or on all that match. */
export function BulkBar({ noun, selected, all, setAll, clear, bulks, rest = [], scope, allBlocked, onOpen }: BarProps) {
  const [open, setOpen] = useState<Bulk | null>(null);
  const show = (b: Bulk | null) => {
    setOpen(b);
    onOpen?.(b !== null);
  };
  const tooMany = !all && selected > idsLimit ? `At most ${format(idsLimit)} can be chosen one by one. Choose all that match.` : undefined;
  return (
    <div className={css.bar} role="toolbar" aria-label={`Selected ${noun[1]}`}>
      <b aria-live="polite">{all ? `All ${noun[1]} that match` : `${plural(selected, noun[0], noun[1])} selected`}</b>
      {all ? (
        <TextButton onClick={() => setAll(false)}>Only the {format(selected)} here</TextButton>
      ) : allBlocked ? (
        <span className="dim">{allBlocked}</span>
      ) : (
        <TextButton onClick={() => setAll(true)}>All that match</TextButton>
      )}
      <span className="grow" />
      {bulks.map((b) => (
        <Button
          key={b.path}
          {...(b.icon ? { icon: b.icon } : {})}
          tone={b.danger ? 'danger' : 'plain'}
          blocked={tooMany}
          onClick={() => show(b)}
        >
          {b.verb} …
        </Button>
      ))}
      {rest.length > 0 && (
        <Menu position="bottom-end" width={180}>
          <Menu.Target>
            <button type="button" className={css.more} aria-label="More actions">
              <Icon name="more" />
            </button>
          </Menu.Target>
          <Menu.Dropdown>
            {rest.map((b) => (
              <Menu.Item
                key={b.path}
                disabled={!!tooMany}
                leftSection={b.icon && <Icon name={b.icon} size={14} />}
                {...(b.danger ? { color: 'var(--bad)' } : {})}
                onClick={() => show(b)}
              >
                {b.verb} …
              </Menu.Item>
            ))}
          </Menu.Dropdown>
        </Menu>
      )}
      <Button tone="quiet" iconOnly icon="close" onClick={clear}>
        Clear the selection
      </Button>
      {open && <BulkDialog bulk={open} scope={scope(all, open)} close={() => show(null)} />}
    </div>
  );
}
