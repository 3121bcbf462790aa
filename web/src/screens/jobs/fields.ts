import { api, unwrap } from '../../api/client';
import type { Job, LabelKeys, LabelValues } from '../../api/pending-jobs';
import { count } from '../../lib/number';
import type { Field, Option } from '../../ui/filter';

const kinds = ['http', 'worker', 'command', 'kafka', 'nats', 'amqp', 'noop'];

/** Labels of the namespace: the keys first, and the values once a key is typed. */
async function labels(text: string): Promise<Option[]> {
  const [key, value] = text.split('=', 2);
  if (value === undefined) {
    const { labels: all } = await unwrap<LabelKeys>(api.GET('/api/v1/labels' as never) as never);
    const lists = await Promise.all(all.slice(0, 3).map(async (l) => ofKey(l.key)));
    return lists.flat();
  }
  return ofKey(key!);
}

async function ofKey(key: string): Promise<Option[]> {
  const { values } = await unwrap<LabelValues>(api.GET('/api/v1/labels/{key}' as never, { params: { path: { key } } } as never) as never);
  return values.map((v) => ({ value: `${key}=${v.value}`, hint: `${count(v.jobs)}${v.more ? '+' : ''}` }));
}

export async function queueOptions(): Promise<Option[]> {
  const { items } = await unwrap(api.GET('/api/v1/queues', { params: { query: { page_size: 100 } } }));
  return items.map((q) => ({ value: q.name }));
}

export const fields = (rows: Job[]): Field[] => [
  { key: 'state', label: 'State', options: [{ value: 'active' }, { value: 'paused' }, { value: 'finished' }] },
  {
    key: 'label', label: 'Label', multi: true, free: 'key=value',
    load: (text) => labels(text).catch(() => seen(rows)),
  },
  { key: 'queue', label: 'Queue', load: queueOptions, free: 'Name of a queue' },
  { key: 'target', label: 'Target', options: kinds.map((value) => ({ value })) },
  {
    key: 'due', label: 'Due within', free: 'Duration such as 90m',
    options: [{ value: '5m', label: '5 minutes' }, { value: '1h', label: '1 hour' }, { value: '24h', label: '24 hours' },
      { value: '7d', label: '7 days' }],
  },
  { key: 'due_from', label: 'Due from', free: 'Such as 2026-05-01T00:00:00Z' },
  { key: 'due_to', label: 'Due before', free: 'Such as 2026-05-02T00:00:00Z' },
];

/** The labels of the rows on the screen. */
const seen = (rows: Job[]): Option[] =>
  [...new Set(rows.flatMap((j) => Object.entries(j.labels ?? {}).map(([k, v]) => `${k}=${v}`)))].sort().map((value) => ({ value }));
