import { Switch, useMantineColorScheme } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { setSession, useLogout, useSession } from '../../api/session';
import { keysEnabled, setKeysEnabled } from '../../frame/keys';
import { useAction } from '../../ui/action';
import { Button, Tag } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { Choices } from '../../ui/field';
import { Facts, Section } from '../../ui/page';
import { Loaded } from '../../ui/state';
import { Table, type Column } from '../../ui/table';
import { Ago, When } from '../../ui/when';
import { roles } from './keys';
import css from './settings.module.css';

type LoginSession = Schemas['LoginSessionSummary'];

export function MeTab() {
  const session = useSession();
  const logout = useLogout();
  const [all, setAll] = useState(false);
  const role = roles.find(([r]) => r === session.role);
  const list = useData({ key: ['sessions'], every: 10_000, get: (signal) => unwrap(api.GET('/api/v1/sessions', { signal })) });
  const columns: Column<LoginSession>[] = [
    {
      head: 'Session',
      cell: (s) => (
        <span className="row">
          <code className="clip">{s.id}</code>
          {s.current && <Tag tone="accent">this one</Tag>}
        </span>
      ),
    },
    { head: 'Logged in', width: '120px', right: true, cell: (s) => <Ago at={s.created_at} /> },
    { head: 'Used', width: '110px', right: true, from: 'tablet', cell: (s) => <Ago at={s.used_at} /> },
    { head: 'Ends', width: '110px', right: true, from: 'tablet', cell: (s) => <Ago at={s.expires_at} /> },
  ];
  return (
    <>
      <Facts
        items={[
          ['Logged in as', session.name],
          ['Role', <Tag key="r">{session.role}</Tag>],
          ['Namespace', session.namespace],
          ['Session ends', <When key="e" at={session.expires_at} />],
          ['In the audit log as', <code key="a">{session.actor}</code>],
          session.subject ? ['Known to the identity provider as', <code key="s">{session.subject}</code>] : null,
        ]}
      />
      {role && (
        <p className="dim">
          The role {role[0]} {role[1]}.
        </p>
      )}
      <Section title="Appearance and keyboard" id="look">
        <Look />
      </Section>
      <Section
        title={session.subject ? 'Your sessions' : 'Sessions of this key'}
        id="sessions"
        aside={
          <span className="row">
            <Button icon="logout" onClick={() => void logout()}>
              Log out
            </Button>
            <Button tone="danger" onClick={() => setAll(true)}>
              Log out everywhere…
            </Button>
          </span>
        }
      >
        <Loaded query={list} rows={2}>
          {(page) => <Table label="Sessions" rows={page.items} id={(s) => s.id} columns={columns} />}
        </Loaded>
      </Section>
      {all && <Everywhere person={!!session.subject} close={() => setAll(false)} />}
    </>
  );
}

function Look() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const [keys, setKeys] = useState(keysEnabled());
  return (
    <div className={css.look}>
      <Choices
        label="Theme"
        value={colorScheme}
        set={setColorScheme}
        options={[
          ['auto', 'As the system'],
          ['light', 'Light'],
          ['dark', 'Dark'],
        ]}
      />
      <div>
        <Switch
          size="sm"
          label="Single keys act, such as j, k and g o"
          checked={keys}
          onChange={(e) => {
            setKeys(e.currentTarget.checked);
            setKeysEnabled(e.currentTarget.checked);
          }}
        />
        <p className="dim">
          Keys never act while you type. <span className="desktop">Press ? to see them.</span>
        </p>
      </div>
    </div>
  );
}

function Everywhere({ person, close }: { person: boolean; close: () => void }) {
  const client = useQueryClient();
  const revoke = useAction(() => unwrap(api.POST('/api/v1/sessions:revoke')), { quiet: true });
  const act = () =>
    revoke.mutate(undefined, {
      onSuccess: () => {
        setSession(client, null);
      },
    });
  return (
    <Dialog
      open
      close={close}
      title="Log out everywhere"
      action="Log out everywhere"
      danger
      busy={revoke.isPending}
      error={revoke.error}
      act={act}
    >
      <p>
        All login sessions of {person ? 'yours in this namespace' : 'this key'} end, this one too. Other nodes accept them for up to 5
        seconds. {person ? 'You stay logged in at the identity provider.' : 'The key itself keeps working.'}
      </p>
    </Dialog>
  );
}
