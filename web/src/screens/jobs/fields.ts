import { api, unwrap, type Schemas } from '../../api/client';
import { capped } from '../../lib/number';
import type { Field, Option } from '../../ui/filter';

const kinds = ['http', 'worker', 'command', 'kafka', 'nats', 'amqp', 'noop'];

/** Labels of the namespace: the keys first, and the values once a key is chosen or typed. */
async function labelOptions(text: string): Promise<Option[]> {
  const at = text.indexOf('=');
  if (at < 0) {
    const { labels } = await unwrap(api.GET('/api/v1/labels'));
    const hint = (l: Schemas['Label']) => `${capped(l.values, l.more_values)} ${l.values === 1 ? 'value' : 'values'}`;
    return labels.map((l) => ({ value: `${l.key}=`, begins: true, hint: hint(l) }));
  }
  const key = text.slice(0, at);
  const { values } = await unwrap(api.GET('/api/v1/labels/{key}', { params: { path: { key }, query: { prefix: text.slice(at + 1) } } }));
  return values.map((v) => ({ value: `${key}=${v.value}`, hint: `${capped(v.jobs, v.more)} ${v.jobs === 1 ? 'job' : 'jobs'}` }));
}

export async function queueOptions(): Promise<Option[]> {
  const { items } = await unwrap(api.GET('/api/v1/queues', { params: { query: { page_size: 100 } } }));
  return items.map((q) => ({ value: q.name }));
}

export const otherFields: Field[] = [
  { key: 'state', label: 'State', options: [{ value: 'active' }, { value: 'paused' }, { value: 'finished' }] },
  { key: 'label', label: 'Label', multi: true, free: 'key=value', load: labelOptions },
  { key: 'queue', label: 'Queue', load: queueOptions, free: 'Name of a queue' },
  { key: 'target', label: 'Target', options: kinds.map((value) => ({ value })) },
];

export const dueFields: Field[] = [
  {
    key: 'due', label: 'Due within', free: 'Duration such as 90m',
    options: [{ value: '5m', label: '5 minutes' }, { value: '1h', label: '1 hour' }, { value: '24h', label: '24 hours' },
      { value: '7d', label: '7 days' }],
  },
  { key: 'due_from', label: 'Due from', free: 'Such as 2026-05-01T00:00:00Z' },
  { key: 'due_to', label: 'Due before', free: 'Such as 2026-05-02T00:00:00Z' },
];
