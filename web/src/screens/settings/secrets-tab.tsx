import { useState } from 'react';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { actorName } from '../../lib/actor';
import { useAction } from '../../ui/action';
import { Button, Code } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { SelectField, TextAreaField, TextField } from '../../ui/input';
import { Empty, Loaded } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { Ago, When } from '../../ui/when';
import css from './settings.module.css';

type Secret = Schemas['Secret'];

/** The secrets that targets use. Their values are never read. */
export function SecretsTab() {
  const { may } = useSession();
  const [setting, setSetting] = useState<Secret | 'new' | null>(null);
  const [removing, setRemoving] = useState<Secret | null>(null);
  const list = useData({ key: ['secrets'], get: (signal) => unwrap(api.GET('/api/v1/secrets', { signal })) });
  const columns: Column<Secret>[] = [
    { head: 'Name', cell: (s) => <b className={css.name}>{s.name}</b> },
    { head: 'Version', width: '84px', right: true, cell: (s) => s.version },
    { head: 'Updated', width: '110px', right: true, cell: (s) => <Ago at={s.updated_at} /> },
    { head: 'By', width: '260px', from: 'tablet', cell: (s) => <span title={s.updated_by}>{actorName(s.updated_by)}</span> },
    {
      head: 'Previous value used until',
      width: '220px',
      from: 'desktop',
      cell: (s) => (s.previous_until ? <When at={s.previous_until} utc={false} /> : <span className="dim">–</span>),
    },
    ...(may('editor')
      ? [
          {
            head: <span className="sr">Actions</span>,
            width: '164px',
            right: true,
            cell: (s: Secret) => (
              <span className={css.actions}>
                <Button tone="quiet" onClick={() => setSetting(s)} aria-label={`Replace ${s.name}`}>
                  Replace
                </Button>
                <Button tone="quiet" onClick={() => setRemoving(s)} aria-label={`Delete ${s.name}`}>
                  Delete
                </Button>
              </span>
            ),
          },
        ]
      : []),
  ];
  return (
    <>
      <div className={css.head}>
        <p className="dim grow">
          Targets name a secret in their config as <Code>{'{"secret": "NAME"}'}</Code>. Values are encrypted, and cannot be read back.
        </p>
        {may('editor') && (
          <Button tone="primary" icon="plus" onClick={() => setSetting('new')}>
            New secret
          </Button>
        )}
      </div>
      <Loaded query={list}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="There is no secret" command={commands.secret}>
              Store tokens and signing keys of your targets here, not in their config.
            </Empty>
          ) : (
            <Table label="Secrets" rows={items} id={(s) => s.name} columns={columns} />
          )
        }
      </Loaded>
      {setting && <SetSecret of={setting === 'new' ? null : setting} close={() => setSetting(null)} />}
      {removing && <Remove of={removing} close={() => setRemoving(null)} />}
    </>
  );
}

function SetSecret({ of: secret, close }: { of: Secret | null; close: () => void }) {
  const [name, setName] = useState(secret?.name ?? '');
  const [value, setValue] = useState('');
  const [keep, setKeep] = useState('24h');
  const save = useAction(
    () =>
      unwrap(
        api.PUT('/api/v1/secrets/{secret}', {
          params: { path: { secret: name.trim() } },
          body: { value, ...(secret ? { keep_previous_for: keep } : {}) },
        }),
      ),
    { done: (s) => `Secret ${s.name} is stored, version ${s.version}.`, quiet: true },
  );
  return (
    <Dialog
      open
      close={close}
      title={secret ? `Replace secret ${secret.name}` : 'New secret'}
      action={secret ? 'Replace' : 'Store'}
      busy={save.isPending}
      error={save.error}
      blocked={!name.trim() ? 'Enter a name' : value === '' ? 'Enter a value' : undefined}
      act={() => save.mutate(undefined, { onSuccess: close })}
    >
      {!secret && (
        <TextField
          label="Name"
          value={name}
          onValue={setName}
          maxLength={100}
          mono
          hint="a-z, 0-9 and -, such as hook-signing. A name that exists is replaced."
          data-autofocus
        />
      )}
      <TextAreaField
        label="Value"
        value={value}
        onValue={setValue}
        mono
        rows={4}
        hint="It is sent once and never shown again. Line breaks are kept."
        {...(secret ? { 'data-autofocus': true } : {})}
      />
      {secret && (
        <SelectField
          label="Sign with the previous value too, for"
          value={keep}
          onValue={setKeep}
          hint="So that receivers have time to learn the new one."
          options={[
            { value: '0s', label: 'no time: the new value only' },
            { value: '1h', label: '1 hour' },
            { value: '24h', label: '24 hours' },
            { value: '7d', label: '7 days' },
          ]}
        />
      )}
      {secret && (
        <p className="dim">
          Now version {secret.version}, set by {actorName(secret.updated_by)}. Nodes use the new value within 10 seconds.
        </p>
      )}
    </Dialog>
  );
}

function Remove({ of: secret, close }: { of: Secret; close: () => void }) {
  const [typed, setTyped] = useState('');
  const remove = useAction(() => unwrap(api.DELETE('/api/v1/secrets/{secret}', { params: { path: { secret: secret.name } } })), {
    done: () => `Secret ${secret.name} is deleted.`,
    quiet: true,
  });
  return (
    <Dialog
      open
      close={close}
      title={`Delete secret ${secret.name}`}
      action="Delete"
      danger
      busy={remove.isPending}
      error={remove.error}
      blocked={typed === secret.name ? undefined : 'Type its name'}
      act={() => remove.mutate(undefined, { onSuccess: close })}
    >
      <p>Runs of jobs that use it fail until it exists again. The value is lost.</p>
      <TextField label={`Type ${secret.name} to confirm`} value={typed} onValue={setTyped} mono data-autofocus />
    </Dialog>
  );
}
