import { SegmentedControl, useMantineColorScheme, Menu } from '@mantine/core';
import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { useData, useFreshness, useLive } from '../api/live';
import { switchNamespace, useLogout, useSession } from '../api/session';
import { snapshot, type Schemas } from '../api/client';
import { readCookie, writeCookie } from '../lib/cookie';
import { capped } from '../lib/number';
import { duration, type ZoneMode } from '../lib/time';
import { Button, Kbd } from '../ui/control';
import { Icon, type IconName } from '../ui/icon';
import { ZoneContext } from '../ui/when';
import { Help } from './help';
import { useShortcut } from './keys';
import { Palette } from './palette';
import css from './frame.module.css';

type Item = { to: string; label: string; icon: IconName; key: string };

const groups: Item[][] = [
  [
    { to: '/', label: 'Overview', icon: 'overview', key: 'o' },
    { to: '/jobs', label: 'Jobs', icon: 'jobs', key: 'j' },
    { to: '/runs', label: 'Runs', icon: 'runs', key: 'r' },
    { to: '/dead-letters', label: 'Dead letters', icon: 'dead', key: 'd' },
    { to: '/load', label: 'Load', icon: 'load', key: 'l' },
  ],
  [
    { to: '/queues', label: 'Queues', icon: 'queues', key: 'q' },
    { to: '/operations', label: 'Operations', icon: 'operations', key: 'p' },
    { to: '/cluster', label: 'Cluster', icon: 'cluster', key: 'c' },
  ],
  [
    { to: '/audit', label: 'Audit', icon: 'audit', key: 'a' },
    { to: '/settings', label: 'Settings', icon: 'settings', key: 's' },
  ],
];

/** The numbers that every screen shows: one snapshot, shared with the Overview. */
export const useOverview = () =>
  useData<Schemas['Overview']>({ key: ['overview'], get: (signal) => snapshot('/api/v1/overview', signal), every: 2000 });

const zoneCookie = 'belfry_zone';

/** If what has the focus leaves the page, such as a button that the new state has no use for, the content gets the focus. */
function useKeptFocus(): void {
  useEffect(() => {
    let last: Element | null = null;
    // Dialogs are elsewhere, and return the focus themselves.
    const remember = (e: FocusEvent) => {
      last = (e.target as Element).closest('#content') ? (e.target as Element) : null;
    };
    const watch = new MutationObserver(() => {
      if (document.activeElement !== document.body || !last || last.isConnected) return;
      last = null;
      document.getElementById('content')?.focus({ preventScroll: true });
    });
    document.addEventListener('focusin', remember);
    watch.observe(document.body, { childList: true, subtree: true });
    return () => {
      document.removeEventListener('focusin', remember);
      watch.disconnect();
    };
  }, []);
}

export function Frame() {
  useKeptFocus();
  const [zone, setZone] = useState<ZoneMode>(() => (readCookie(zoneCookie) as ZoneMode | undefined) ?? 'job');
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const navigate = useNavigate();
  const { paused, setPaused } = useLive();
  useShortcut('?', () => setHelp(true));
  useShortcut('z', () => setPaused(!paused));
  useShortcut('/', () => document.querySelector<HTMLInputElement>('[data-filter]')?.focus());
  const { may } = useSession();
  useGoKeys((item) => mayOpen(item, may) && void navigate({ to: item.to }));
  useEffect(() => {
    const open = (e: KeyboardEvent) => {
      if (e.key === 'k' && (e.ctrlKey || e.metaKey)) {
        e.preventDefault();
        setPalette(true);
      }
    };
    window.addEventListener('keydown', open);
    return () => window.removeEventListener('keydown', open);
  }, []);
  return (
    <ZoneContext value={zone}>
      <a href="#content" className={css.skip}>
        Skip to the content
      </a>
      <div className={css.app}>
        <Side openHelp={() => setHelp(true)} />
        <div className={css.main}>
          <div className={css.top}>
            <button type="button" className={css.find} onClick={() => setPalette(true)}>
              <Icon name="search" />
              <b className="sr">Find</b>
              <span>Find a job, run or screen</span>
              <Kbd>Ctrl K</Kbd>
            </button>
            <span className="grow" />
            <LiveChip />
            <SegmentedControl
              aria-label="Time zone of times"
              size="xs"
              value={zone}
              onChange={(v) => {
                setZone(v as ZoneMode);
                writeCookie(zoneCookie, v);
              }}
              data={[
                { value: 'job', label: 'Job time' },
                { value: 'utc', label: 'UTC' },
                { value: 'mine', label: 'My time' },
              ]}
            />
          </div>
          <main id="content" tabIndex={-1} className={css.content}>
            <Outlet />
          </main>
        </div>
        <Tabs />
      </div>
      <Announcer />
      {palette && <Palette close={() => setPalette(false)} />}
      {help && <Help close={() => setHelp(false)} />}
    </ZoneContext>
  );
}

function useGoKeys(go: (item: Item) => void): void {
  const [o, j, r, d, l, q, p, c, a, s] = groups.flat();
  useShortcut('g o', () => go(o!));
  useShortcut('g j', () => go(j!));
  useShortcut('g r', () => go(r!));
  useShortcut('g d', () => go(d!));
  useShortcut('g l', () => go(l!));
  useShortcut('g q', () => go(q!));
  useShortcut('g p', () => go(p!));
  useShortcut('g c', () => go(c!));
  useShortcut('g a', () => go(a!));
  useShortcut('g s', () => go(s!));
}

const mayOpen = (item: Item, may: (role: 'admin') => boolean) => item.to !== '/audit' || may('admin');

function Side({ openHelp }: { openHelp: () => void }) {
  const session = useSession();
  const overview = useOverview();
  const letters = overview.data?.dead_letters;
  const importing = useRouterState({ select: (s) => s.location.pathname.endsWith('/import') });
  return (
    <nav className={css.side} aria-label="Main">
      <div className={css.brand}>
        <span className={css.logo}>
          <Icon name="bell" />
        </span>
        <span className={css.wide}>Belfry</span>
        <span className={`${css.namespace} ${css.wide}`} title="Namespace">
          {session.namespace}
        </span>
      </div>
      {groups.map((items, i) => (
        <ul key={i}>
          {items
            .filter((x) => mayOpen(x, session.may))
            .map((item) => (
              <li key={item.to}>
                <Link
                  to={item.to}
                  className={css.nav}
                  activeOptions={{ exact: item.to === '/' }}
                  activeProps={{ 'data-active': true } as object}
                  {...(importing && item.to === '/jobs' && { 'data-active': true })}
                  title={item.label}
                >
                  <Icon name={item.icon} />
                  <span className={css.wide}>{item.label}</span>
                  {item.to === '/dead-letters' && letters && letters.count > 0 && (
                    <span className={css.navCount}>
                      {capped(letters.count, letters.more)}
                      <span className="sr"> dead letters</span>
                    </span>
                  )}
                </Link>
              </li>
            ))}
        </ul>
      ))}
      <Me openHelp={openHelp} />
    </nav>
  );
}

function Me({ openHelp }: { openHelp: () => void }) {
  const session = useSession();
  const logout = useLogout();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const dark = document.documentElement.dataset.mantineColorScheme === 'dark' || colorScheme === 'dark';
  return (
    <div className={css.me}>
      <Menu position="top-start" width={200}>
        <Menu.Target>
          <button type="button" className={css.who}>
            <span className={css.avatar} aria-hidden="true">
              {session.name.slice(0, 1).toUpperCase()}
            </span>
            <span className={`${css.whoText} ${css.wide}`}>
              <span className="clip">{session.name}</span>
              <span className="dim">{session.role}</span>
            </span>
            <span className="sr">Menu of the user</span>
          </button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<Icon name="help" size={14} />} onClick={openHelp}>
            Keyboard and help
          </Menu.Item>
          <Menu.Item leftSection={<Icon name="link" size={14} />} component="a" href="/docs">
            API reference
          </Menu.Item>
          {session.namespaces
            ?.filter((n) => n.name !== session.namespace)
            .map((n) => (
              <Menu.Item key={n.name} onClick={() => void switchNamespace(n.name)}>
                Switch to {n.name} <span className="dim">{n.role}</span>
              </Menu.Item>
            ))}
          <Menu.Item leftSection={<Icon name="logout" size={14} />} onClick={() => void logout()}>
            Log out
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Button tone="quiet" iconOnly icon={dark ? 'sun' : 'moon'} onClick={() => setColorScheme(dark ? 'light' : 'dark')}>
        {dark ? 'Light theme' : 'Dark theme'}
      </Button>
    </div>
  );
}

/** The bar at the bottom of a phone. */
function Tabs() {
  const { may } = useSession();
  const items = groups[0]!;
  return (
    <nav className={css.tabs} aria-label="Main, short">
      {items.map((item) => (
        <Link
          key={item.to}
          to={item.to}
          className={css.tab}
          activeOptions={{ exact: item.to === '/' }}
          activeProps={{ 'data-active': true } as object}
        >
          <Icon name={item.icon} />
          {item.label}
        </Link>
      ))}
      <Menu position="top-end" width={180}>
        <Menu.Target>
          <button type="button" className={css.tab}>
            <Icon name="more" />
            More
          </button>
        </Menu.Target>
        <Menu.Dropdown>
          {groups
            .slice(1)
            .flat()
            .filter((item) => mayOpen(item, may))
            .map((item) => (
              <Menu.Item key={item.to} component={Link} to={item.to} leftSection={<Icon name={item.icon} size={14} />}>
                {item.label}
              </Menu.Item>
            ))}
        </Menu.Dropdown>
      </Menu>
    </nav>
  );
}

/** Says how old the data on the screen is. A click pauses updates. */
function LiveChip() {
  const { paused, setPaused } = useLive();
  const { age, failed, polled, every } = useFreshness();
  const stale = failed || (polled && age > 3 * every + 3000);
  const text = paused ? 'Paused' : stale ? 'Stale' : polled ? 'Live' : 'Loading';
  return (
    <button
      type="button"
      className={css.live}
      data-live={text.toLowerCase()}
      onClick={() => setPaused(!paused)}
      title={paused ? 'Updates are paused. Resume: z' : 'Updates come by themselves. Pause: z'}
    >
      <i aria-hidden="true" />
      {text}
      <span className="dim num">{polled ? duration(Math.max(1000, Math.floor(age / 1000) * 1000)) : ''}</span>
    </button>
  );
}

/** One polite live region: changes of state, at most one text each ten seconds. The tab's title and icon change too. */
function Announcer() {
  const overview = useOverview();
  const late = overview.data?.late.runs ?? 0;
  const failed = !!overview.error;
  const [text, setText] = useState('');
  const path = useRouterState({ select: (s) => s.location.pathname });
  useEffect(() => {
    const t = setTimeout(() => setText(failed ? 'The data is stale: the node does not answer.' : late > 0 ? 'Runs are late.' : ''), 10_000);
    return () => clearTimeout(t);
  }, [late > 0, failed]);
  useEffect(() => {
    const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]');
    if (icon) icon.href = late > 0 ? '/ui/icon-late.svg' : '/ui/icon.svg';
    const plain = document.title.replace(/^\(late\) /, '');
    document.title = late > 0 ? `(late) ${plain}` : plain;
  }, [late > 0, path]);
  return (
    <div role="status" aria-live="polite" className="sr">
      {text}
    </div>
  );
}
