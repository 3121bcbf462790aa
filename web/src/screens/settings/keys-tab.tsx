import { Modal } from '@mantine/core';
import { useState } from 'react';
import { api, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import { commands } from '../../lib/commands';
import { actorName } from '../../lib/actor';
import { useAction } from '../../ui/action';
import { Button, Copy, Tag } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { SelectField, TextField } from '../../ui/input';
import { Outcome } from '../../ui/mark';
import { Empty, Loaded } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { Ago, When } from '../../ui/when';
import { now } from '../../lib/time';
import { blockedBy, emptyForm, expiresSoon, requestOf, roles, stateOf, type Key, type KeyForm } from './keys';
import css from './settings.module.css';

export function KeysTab() {
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Key | null>(null);
  const list = useData({ key: ['keys'], get: (signal) => unwrap(api.GET('/api/v1/keys', { signal })) });
  const current = now();
  const columns: Column<Key>[] = [
    {
      head: 'Name',
      cell: (k) => (
        <span className="row">
          <b className={css.name}>{k.name}</b>
          <code className="dim">{k.prefix}…</code>
        </span>
      ),
    },
    { head: 'Role', width: '96px', cell: (k) => <Tag tone={k.role === 'admin' ? 'accent' : ''}>{k.role}</Tag> },
    { head: 'Queues', width: '150px', from: 'desktop', cell: (k) => k.queues?.join(', ') ?? <span className="dim">–</span> },
    { head: 'State', width: '110px', from: 'tablet', cell: (k) => <State state={stateOf(k, current)} /> },
    {
      head: 'Expires',
      width: '120px',
      right: true,
      from: 'tablet',
      cell: (k) =>
        k.expires_at ? (
          <span className={expiresSoon(k, current) ? 'warn' : ''}>
            <Ago at={k.expires_at} />
          </span>
        ) : (
          <span className="dim">never</span>
        ),
    },
    { head: 'Created by', width: '260px', from: 'desktop', cell: (k) => <span title={k.created_by}>{actorName(k.created_by)}</span> },
    { head: 'Created', width: '110px', right: true, from: 'desktop', cell: (k) => <Ago at={k.created_at} /> },
    {
      head: <span className="sr">Actions</span>,
      width: '92px',
      right: true,
      cell: (k) => (
        <Button
          tone="quiet"
          blocked={k.revoked_at ? 'It is revoked' : undefined}
          onClick={() => setRevoking(k)}
          aria-label={`Revoke ${k.name}`}
        >
          Revoke
        </Button>
      ),
    },
  ];
  return (
    <>
      <div className={css.head}>
        <p className="dim grow">A key authenticates requests of this namespace. Belfry stores only a hash of it.</p>
        <Button tone="primary" icon="plus" onClick={() => setCreating(true)}>
          New key
        </Button>
      </div>
      <Loaded query={list}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="There is no key" command={commands.createKey} />
          ) : (
            <Table
              label="Keys"
              rows={items}
              id={(k) => k.id}
              columns={columns}
              rowClass={(k) => (stateOf(k, current) === 'active' ? undefined : css.ended)}
            />
          )
        }
      </Loaded>
      {creating && <NewKey close={() => setCreating(false)} />}
      {revoking && <Revoke of={revoking} close={() => setRevoking(null)} />}
    </>
  );
}

function State({ state }: { state: 'active' | 'expired' | 'revoked' }) {
  if (state === 'active') return <Tag>Active</Tag>;
  return <Outcome kind={state === 'revoked' ? 'cancelled' : 'missed'}>{state === 'revoked' ? 'Revoked' : 'Expired'}</Outcome>;
}

function NewKey({ close }: { close: () => void }) {
  const [form, setForm] = useState<KeyForm>(emptyForm);
  const [stored, setStored] = useState(false);
  const create = useAction((f: KeyForm) => unwrap(api.POST('/api/v1/keys', { body: requestOf(f) })), { quiet: true });
  const made = create.data;
  if (made) {
    return (
      <Modal
        opened
        onClose={() => stored && close()}
        title={`Key ${made.name}`}
        size="lg"
        withCloseButton={false}
        closeOnClickOutside={false}
      >
        <div className="stack">
          <p>This is the key. It is shown this once and cannot be read again.</p>
          <div className={css.secret}>
            <code data-testid="new-key">{made.secret}</code>
            <Copy text={made.secret} label="Copy the key" />
          </div>
          <p className="dim">
            Role {made.role}
            {made.queues ? `, queues ${made.queues.join(', ')}` : ''}
            {made.expires_at ? (
              <>
                , expires <When at={made.expires_at} />
              </>
            ) : (
              ', does not expire'
            )}
            .
          </p>
          <label className={css.check}>
            <input type="checkbox" checked={stored} onChange={(e) => setStored(e.currentTarget.checked)} data-autofocus /> I stored it
          </label>
          <div className="row">
            <span className="grow" />
            <Button tone="primary" blocked={stored ? undefined : 'Confirm that you stored it'} onClick={close}>
              Done
            </Button>
          </div>
        </div>
      </Modal>
    );
  }
  const role = roles.find(([r]) => r === form.role);
  return (
    <Dialog
      open
      close={close}
      title="New key"
      action="Create"
      busy={create.isPending}
      error={create.error}
      blocked={blockedBy(form)}
      act={() => create.mutate(form)}
    >
      <TextField
        label="Name"
        hint="What it is for, such as ci or dashboard."
        value={form.name}
        onValue={(name) => setForm({ ...form, name })}
        maxLength={100}
        data-autofocus
      />
      <SelectField
        label="Role"
        hint={role && `It ${role[1]}.`}
        value={form.role}
        onValue={(r) => setForm({ ...form, role: r as KeyForm['role'] })}
        options={roles.map(([value]) => ({ value, label: value }))}
      />
      {form.role === 'worker' && (
        <TextField
          label="Queues"
          hint="One or more names. They need not exist."
          value={form.queues}
          onValue={(queues) => setForm({ ...form, queues })}
        />
      )}
      <SelectField
        label="Expires"
        value={form.expires}
        onValue={(expires) => setForm({ ...form, expires })}
        options={[
          { value: '30d', label: 'in 30 days' },
          { value: '90d', label: 'in 90 days' },
          { value: '365d', label: 'in a year' },
          { value: '', label: 'never' },
        ]}
      />
    </Dialog>
  );
}

function Revoke({ of: key, close }: { of: Key; close: () => void }) {
  const revoke = useAction(() => unwrap(api.POST('/api/v1/keys/{key}:revoke', { params: { path: { key: key.id } } })), {
    done: () => `Key ${key.name} is revoked.`,
    quiet: true,
  });
  return (
    <Dialog
      open
      close={close}
      title={`Revoke key ${key.name}`}
      action="Revoke"
      danger
      busy={revoke.isPending}
      error={revoke.error}
      act={() => revoke.mutate(undefined, { onSuccess: close })}
    >
      <p>Requests with this key are rejected within 5 seconds, and its login sessions end. This cannot be undone.</p>
      <p className="dim">
        <code>{key.prefix}…</code>, role {key.role}, created <When at={key.created_at} />
      </p>
    </Dialog>
  );
}
