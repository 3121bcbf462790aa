import { Autocomplete } from '@mantine/core';
import { useState } from 'react';
import { api, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import { getIn, objectOf, setIn } from '../../lib/definition';
import { isObject, parseExact, type Exact } from '../../lib/json';
import { Issues, SelectField, TextField } from '../../ui/input';
import { JSONField } from './json-field';
import { Pairs } from './pairs';
import { asText, useEditing, useField } from './state';
import css from './editor.module.css';

const targets = [
  { value: 'http', label: 'HTTP request' },
  { value: 'worker', label: 'Worker that pulls it' },
  { value: 'nats', label: 'NATS message' },
  { value: 'kafka', label: 'Kafka message' },
  { value: 'amqp', label: 'RabbitMQ message (AMQP)' },
  { value: 'command', label: 'Command on a node' },
  { value: 'noop', label: 'Nothing (for tests)' },
];

const examples: Record<string, string> = {
  nats: '{"broker": "", "subject": "orders.due"}',
  kafka: '{"broker": "", "topic": "orders"}',
  amqp: '{"broker": "", "exchange": "orders", "routing_key": "due"}',
  command: '{"program": "/usr/local/bin/backup", "args": ["--full"]}',
};

const brokerKinds = ['nats', 'kafka', 'amqp'];

/** Where the runs go. */
export function TargetSection() {
  const { def, edit, issues, touch } = useEditing();
  const kind = asText(getIn(def, ['target', 'kind']));
  const config = getIn(def, ['target', 'config']);
  const [drafts, setDrafts] = useState<Record<string, Exact | undefined>>({});
  const choose = (next: string) => {
    setDrafts({ ...drafts, [kind]: config });
    const example = examples[next];
    const start = next in drafts ? drafts[next] : example ? parseExact(example) : undefined;
    edit((d) =>
      setIn(
        d,
        ['target'],
        objectOf(
          start === undefined
            ? [['kind', next]]
            : [
                ['kind', next],
                ['config', start],
              ],
        ),
      ),
    );
  };
  const known = targets.some((t) => t.value === kind) || kind === '' ? targets : [...targets, { value: kind, label: kind }];
  const rest = issues('target');
  return (
    <section className={css.section} aria-labelledby="target-head">
      <h2 id="target-head">Target</h2>
      {rest.length > 0 && <Issues issues={rest} at="" />}
      {kind === 'http' ? (
        <HTTP kind={<KindField kind={kind} options={known} choose={choose} />} />
      ) : (
        <>
          <div className={css.pair}>
            <KindField kind={kind} options={known} choose={choose} />
            {kind === 'worker' && <Handler />}
            {brokerKinds.includes(kind) && <Broker kind={kind} />}
          </div>
          {kind !== 'worker' && kind !== 'noop' && (
            <JSONField
              label="Settings (JSON)"
              field="target.config"
              value={config}
              rows={5}
              placeholder={examples[kind] ?? '{}'}
              issues={issues('target.config')}
              write={(v) => {
                touch('target.config');
                edit((d) => setIn(d, ['target', 'config'], v));
              }}
            />
          )}
          {(kind === 'worker' || kind === 'noop') && issues('target.config').length > 0 && (
            <Issues issues={issues('target.config')} at="" />
          )}
        </>
      )}
    </section>
  );
}

function KindField({
  kind,
  options,
  choose,
}: {
  kind: string;
  options: { value: string; label: string }[];
  choose: (next: string) => void;
}) {
  const { issues } = useEditing();
  return <SelectField label="Kind" options={options} value={kind} onValue={choose} issues={issues('target.kind')} />;
}

const Handler = () => <TextField label="Handler" mono placeholder="send-invoice" {...useField(['target', 'config', 'handler'])} />;

/** The broker, of those that the operator has set for the namespace. */
function Broker({ kind }: { kind: string }) {
  const field = useField(['target', 'config', 'broker']);
  const q = useData({ key: ['brokers'], get: (signal) => unwrap(api.GET('/api/v1/brokers', { signal })) });
  const names = (q.data?.items ?? []).filter((b) => b.kind === kind).map((b) => b.name);
  if (field.value !== '' && !names.includes(field.value)) names.push(field.value);
  const options = [{ value: '', label: names.length > 0 ? 'Choose a broker' : 'No broker of this kind is set' }];
  return <SelectField label="Broker" options={[...options, ...names.map((n) => ({ value: n, label: n }))]} {...field} />;
}

const methods = ['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'HEAD'].map((m) => ({ value: m === 'POST' ? '' : m, label: m }));

function HTTP({ kind }: { kind: React.ReactNode }) {
  const { def, edit, issues, touch } = useEditing();
  const url = useField(['target', 'config', 'url']);
  const method = useField(['target', 'config', 'method']);
  const config = getIn(def, ['target', 'config']);
  const put = (key: string, v: Exact | undefined) => edit((d) => setIn(d, ['target', 'config', key], v));
  const other = isObject(config)
    ? Object.keys(config).filter((k) => !['url', 'method', 'headers', 'auth', 'keep_response'].includes(k))
    : [];
  const rest = issues('target.config');
  return (
    <>
      <div className={css.pair}>
        {kind}
        <SelectField label="Method" options={methods} {...method} value={method.value === 'POST' ? '' : method.value} />
      </div>
      <TextField label="URL" mono placeholder="https://example.com/hook" inputMode="url" {...url} />
      <Pairs
        legend="Headers"
        names={{ key: 'Header', value: 'Value of header', add: 'Header' }}
        secrets
        keyPlaceholder="X-Tenant"
        valuePlaceholder="value"
        value={getIn(config, ['headers'])}
        write={(v) => put('headers', v)}
        onBlur={() => touch('target.config.headers')}
      />
      {issues('target.config.headers').length > 0 && <Issues issues={issues('target.config.headers')} at="target.config.headers" />}
      <Auth value={getIn(config, ['auth'])} write={(v) => put('auth', v)} />
      <label className={css.tick}>
        <input
          type="checkbox"
          checked={getIn(config, ['keep_response']) === true}
          onChange={(e) => put('keep_response', e.currentTarget.checked ? true : undefined)}
        />
        Keep the beginning of the answer, also when the run succeeds
      </label>
      {rest.length > 0 && <Issues issues={rest} at="" />}
      {other.length > 0 && (
        <p className="dim">
          Also set:{' '}
          {other.map((k, i) => (
            <span key={k}>
              {i > 0 && ', '}
              <code>{k}</code>
            </span>
          ))}
          . Change them in the YAML.
        </p>
      )}
    </>
  );
}

const ways = [
  { value: '', label: 'None' },
  { value: 'bearer', label: 'Bearer token' },
  { value: 'basic', label: 'User and password' },
];

function Auth({ value, write }: { value: Exact | undefined; write: (v: Exact | undefined) => void }) {
  const { issues, touch } = useEditing();
  const wrong = issues('target.config.auth');
  const way = isObject(value) ? (Object.keys(value)[0] ?? '') : '';
  const secret = asText(getIn(value, way === 'basic' ? ['basic', 'password', 'secret'] : ['bearer', 'secret']));
  const user = asText(getIn(value, ['basic', 'user']));
  const put = (next: string, name: string, who: string) => {
    const stored = objectOf([['secret', name]]);
    if (next === '') write(undefined);
    else
      write(
        objectOf([
          [
            next,
            next === 'bearer'
              ? stored
              : objectOf([
                  ['user', who],
                  ['password', stored],
                ]),
          ],
        ]),
      );
  };
  return (
    <>
      <div className={css.pair}>
        <SelectField label="Authentication" options={ways} value={way} onValue={(v) => put(v, secret, user)} />
        {way === 'basic' && <TextField label="User" mono value={user} onValue={(v) => put(way, secret, v)} />}
        {way !== '' && (
          <SecretField
            label={way === 'basic' ? 'Secret with the password' : 'Secret with the token'}
            value={secret}
            onValue={(v) => put(way, v, user)}
            onBlur={() => touch('target.config.auth')}
          />
        )}
      </div>
      {wrong.length > 0 && <Issues issues={wrong} at="target.config.auth" />}
    </>
  );
}

/** The name of a secret, with those that exist. They are read when the input gets the focus. */
function SecretField({
  label,
  value,
  onValue,
  onBlur,
}: {
  label: string;
  value: string;
  onValue: (v: string) => void;
  onBlur: () => void;
}) {
  const [asked, setAsked] = useState(false);
  const q = useData({ key: ['secrets'], get: (signal) => unwrap(api.GET('/api/v1/secrets', { signal })), enabled: asked });
  const data = (q.data?.items ?? []).map((s) => s.name);
  return (
    <Autocomplete
      label={label}
      placeholder="name of a secret"
      value={value}
      onChange={onValue}
      data={data}
      limit={20}
      spellCheck={false}
      onFocus={() => setAsked(true)}
      onBlur={onBlur}
      comboboxProps={{ transitionProps: { duration: 0 } }}
    />
  );
}
