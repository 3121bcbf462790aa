import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { Frame } from './frame/frame';
import { Empty } from './ui/state';

// Each screen is a chunk of its own. What it shows is in its search parameters, so a link opens the same screen.

const root = createRootRoute({
  component: Frame,
  notFoundComponent: () => <Empty title="There is no such page">Check the address, or find what you look for with Ctrl K.</Empty>,
});

type Search = Record<string, string | undefined>;

/** Search parameters are texts. A screen reads those it knows. */
const search = (raw: Record<string, unknown>): Search => {
  const out: Search = {};
  for (const [k, v] of Object.entries(raw)) if (v !== undefined && v !== null && v !== '') out[k] = String(v);
  return out;
};

const screen = (path: string, load: () => Promise<{ default: React.ComponentType }>) =>
  createRoute({ getParentRoute: () => root, path, validateSearch: search, component: lazyRouteComponent(load) });

export const router = createRouter({
  basepath: '/ui',
  scrollRestoration: true,
  defaultPreload: 'intent',
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (s) => {
    const text = new URLSearchParams(Object.entries(s as Search).filter((e): e is [string, string] => !!e[1])).toString();
    return text ? `?${text}` : '';
  },
  routeTree: root.addChildren([
    screen('/', () => import('./screens/overview')),
    screen('/login', () => import('./screens/overview')),
    screen('/jobs', () => import('./screens/jobs')),
    screen('/jobs/new', () => import('./screens/editor')),
    screen('/jobs/$job', () => import('./screens/job')),
    screen('/jobs/$job/at/$time', () => import('./screens/job')),
    screen('/jobs/$job/edit', () => import('./screens/editor')),
    screen('/import', () => import('./screens/import')),
    screen('/runs', () => import('./screens/runs')),
    screen('/runs/$run', () => import('./screens/run')),
    screen('/dead-letters', () => import('./screens/dead-letters')),
    screen('/load', () => import('./screens/load')),
    screen('/queues', () => import('./screens/queues')),
    screen('/queues/$queue', () => import('./screens/queue')),
    screen('/operations', () => import('./screens/operations')),
    screen('/operations/$operation', () => import('./screens/operation')),
    screen('/cluster', () => import('./screens/cluster')),
    screen('/audit', () => import('./screens/audit')),
    screen('/settings', () => import('./screens/settings')),
  ]),
});
