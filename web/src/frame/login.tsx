import { PasswordInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api, ApiProblem, unwrap } from '../api/client';
import { setSession } from '../api/session';
import { commands } from '../lib/commands';
import { Button, Command } from '../ui/control';
import { Icon } from '../ui/icon';
import { ProblemView } from '../ui/state';
import css from './login.module.css';

/** The one-time code of `belfry dev`, in the fragment, which browsers do not send to the server. */
function takeCode(): string | null {
  const m = /^#code=([\w-]+)$/.exec(location.hash);
  if (!m) return null;
  history.replaceState(null, '', location.pathname + location.search);
  return m[1]!;
}

/** The name of the identity provider. The server writes it into the page, because the browser may not call the API yet. */
const provider = () => document.querySelector<HTMLMetaElement>('meta[name=belfry-provider]')?.content ?? '';

/** Where the login through the provider starts. It comes back to the screen that was asked for. */
function providerLink(): string {
  const here = location.pathname.endsWith('/login') ? '/ui/' : location.pathname + location.search;
  return `/auth/oidc?next=${encodeURIComponent(here)}`;
}

export function Login() {
  const client = useQueryClient();
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const began = useRef(false);

  const login = async (body: { key: string } | { code: string }) => {
    setBusy(true);
    setError(null);
    try {
      await unwrap(api.POST('/api/v1/session', { body }));
      setKey('');
      // A browser drops the cookie of a page that is neither HTTPS nor on this machine.
      const session = await unwrap(api.GET('/api/v1/session')).catch((e: unknown) => {
        if (e instanceof ApiProblem && e.status === 401) {
          throw new ApiProblem(0, { code: 'no_cookie', detail: 'The browser did not keep the session. Open Belfry over HTTPS.' });
        }
        throw e;
      });
      setSession(client, session);
      if (location.pathname.endsWith('/login')) history.replaceState(null, '', '/ui/');
    } catch (e) {
      setError(e as Error);
    } finally {
      setBusy(false);
    }
  };

  useEffect(() => {
    document.title = 'Log in · Belfry';
    if (began.current) return;
    began.current = true;
    const code = takeCode();
    if (code) void login({ code });
  });

  return (
    <main className={css.page}>
      <form
        className={css.card}
        onSubmit={(e) => {
          e.preventDefault();
          if (key && isSecureContext) void login({ key: key.trim() });
        }}
      >
        <span className={css.logo}>
          <Icon name="bell" size={24} />
        </span>
        <h1>Log in to Belfry</h1>
        {provider() && (
          <>
            <a className={css.provider} href={providerLink()}>
              Log in with {provider()}
            </a>
            <p className={css.or}>or with a key</p>
          </>
        )}
        <PasswordInput
          label="API key"
          placeholder="bfk_…"
          value={key}
          onChange={(e) => setKey(e.currentTarget.value)}
          autoComplete="current-password"
          // The page has no other purpose.
          // oxlint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          spellCheck={false}
          description="It is sent once, and is not kept in the browser."
        />
        {!isSecureContext && (
          <p role="alert">
            This page came over plain HTTP, from an address that is not this machine. Browsers keep the session of Belfry only over HTTPS,
            or on localhost. Open it over HTTPS, or forward its port:{' '}
            <code>
              ssh -L {location.port || '80'}:localhost:{location.port || '80'} {location.hostname}
            </code>
          </p>
        )}
        {error && <ProblemView error={error} quiet />}
        <Button
          type="submit"
          tone="primary"
          busy={busy}
          blocked={!isSecureContext ? 'Open Belfry over HTTPS first' : key ? undefined : 'Enter a key'}
          onClick={undefined}
        >
          Log in
        </Button>
        <p className="dim">An admin creates a key with</p>
        <Command>{commands.loginKey}</Command>
      </form>
    </main>
  );
}
