import { useQuery, useQueryClient, type QueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect, type ReactNode } from 'react';
import { api, ApiProblem, forgetSnapshots, unwrap, type Schemas } from './client';

export type Session = Schemas['LoginSession'];
export type Role = 'viewer' | 'operator' | 'editor' | 'admin';

const roles: Role[] = ['viewer', 'operator', 'editor', 'admin'];

const SessionContext = createContext<Session | null>(null);

/** The session of the user. Only below SessionGate. */
export function useSession(): Session & { may: (role: Role) => boolean } {
  const s = useContext(SessionContext);
  if (!s) throw new Error('useSession outside of SessionGate');
  return { ...s, may: (role) => roles.indexOf(s.role as Role) >= roles.indexOf(role) };
}

export const sessionKey = ['session'] as const;

/** Shows its children to a user who is logged in, and `login` to others. */
export function SessionGate({ login, loading, failed, children }: {
  login: ReactNode;
  loading: ReactNode;
  failed: (error: Error, retry: () => void) => ReactNode;
  children: ReactNode;
}) {
  const client = useQueryClient();
  useEffect(() => {
    const tabs = new BroadcastChannel(channel);
    tabs.onmessage = () => void client.invalidateQueries({ queryKey: sessionKey });
    return () => tabs.close();
  }, [client]);
  const q = useQuery({
    queryKey: sessionKey,
    queryFn: async () => {
      try {
        const now = await unwrap(api.GET('/api/v1/session'));
        if (client.getQueryData<Session | null>(sessionKey)?.id !== now.id) forget(client);
        return now;
      } catch (e) {
        if (e instanceof ApiProblem && e.status === 401) return null;
        throw e;
      }
    },
    staleTime: 60_000,
    refetchInterval: 5 * 60_000,
  });
  if (q.data) return <SessionContext value={q.data}>{children}</SessionContext>;
  if (q.data === null) return login;
  if (q.error) return failed(q.error, () => void q.refetch());
  return loading;
}

// Tabs share the cookie, so another tab may log in as another user.
const channel = 'belfry-session';

/** Drops the data of another session. */
function forget(client: QueryClient): void {
  client.removeQueries({ predicate: (q) => q.queryKey[0] !== sessionKey[0] });
  forgetSnapshots();
}

/** Sets the session of this tab and tells the others. */
export function setSession(client: QueryClient, session: Session | null): void {
  forget(client);
  client.setQueryData(sessionKey, session);
  const tabs = new BroadcastChannel(channel);
  tabs.postMessage('changed');
  tabs.close();
}

/** Ends the session in the browser and at the server. */
export function useLogout(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    await unwrap(api.DELETE('/api/v1/session'));
    setSession(client, null);
  };
}

/** Switches to another namespace of the person. Everything on the screen belongs to the old one, so the page starts again. */
export async function switchNamespace(namespace: string): Promise<void> {
  await unwrap(api.POST('/api/v1/session:switch', { body: { namespace } }));
  location.assign('/ui/');
}
