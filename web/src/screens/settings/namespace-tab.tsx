import { Link } from '@tanstack/react-router';
import { api, unwrap, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { Command } from '../../ui/control';
import { Facts } from '../../ui/page';
import { Loaded } from '../../ui/state';
import { settingOf } from './settings';

/** What holds for everything in the namespace. The operator of the nodes sets it. */
export function NamespaceTab() {
  const session = useSession();
  const cluster = useData<Schemas['Cluster']>({ key: ['cluster'], get: (signal) => unwrap(api.GET('/api/v1/cluster', { signal })) });
  return (
    <Loaded query={cluster} rows={3}>
      {(c) => (
        <>
          <Facts
            items={[
              ['Namespace', session.namespace],
              ['History is kept for', settingOf(c.nodes, 'keep_history')],
              ['Runs are planned ahead by', settingOf(c.nodes, 'look_ahead')],
              ['A silent worker loses its runs after', settingOf(c.nodes, 'worker_ttl')],
              ['Belfry', c.version],
              [
                'Nodes',
                <Link key="n" to="/cluster">
                  {c.nodes.length}
                </Link>,
              ],
            ]}
          />
          <div className="stack">
            <p className="dim">
              Queues have their own limits: see <Link to="/queues">Queues</Link>. A payload has at most 256 kB, and the config of a target
              64 kB.
            </p>
            <p className="dim">
              The durations are settings of the nodes, for all namespaces. A node prints its settings and where they come from:
            </p>
            <div>
              <Command>{commands.config}</Command>
            </div>
          </div>
        </>
      )}
    </Loaded>
  );
}
