import { Tabs } from '@mantine/core';
import { useSession } from '../../api/session';
import { useUrl } from '../../lib/search';
import { Page } from '../../ui/page';
import { KeysTab } from './keys-tab';
import { MeTab } from './me-tab';
import { NamespaceTab } from './namespace-tab';
import { SecretsTab } from './secrets-tab';

/** Keys, secrets, the namespace, and what is mine. */
export default function Settings() {
  const { may } = useSession();
  const [url, set] = useUrl();
  const tabs = [...(may('admin') ? [['keys', 'Keys']] : []), ['secrets', 'Secrets'], ['namespace', 'Namespace'], ['me', 'Me']] as [
    string,
    string,
  ][];
  const tab = tabs.some(([k]) => k === url.tab) ? url.tab! : tabs[0]![0];
  return (
    <Page title="Settings">
      <Tabs value={tab} onChange={(t) => set({ tab: t ?? undefined }, true)} keepMounted={false}>
        <Tabs.List mb={16}>
          {tabs.map(([key, label]) => (
            <Tabs.Tab key={key} value={key}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {may('admin') && (
          <Tabs.Panel value="keys">
            <KeysTab />
          </Tabs.Panel>
        )}
        <Tabs.Panel value="secrets">
          <SecretsTab />
        </Tabs.Panel>
        <Tabs.Panel value="namespace">
          <NamespaceTab />
        </Tabs.Panel>
        <Tabs.Panel value="me">
          <MeTab />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
