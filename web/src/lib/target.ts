import type { Schemas } from '../api/client';

type Config = Record<string, unknown>;

const textOf = (v: unknown): string => (typeof v === 'string' ? v : '');

/** Where the runs of a job go, in a few words: the kind is shown beside it. */
export function targetText(target: Schemas['Target']): string {
  const c = (target.config ?? {}) as Config;
  switch (target.kind) {
    case 'http': return textOf(c.url).replace(/^https?:\/\//, '');
    case 'worker': return textOf(c.handler);
    case 'command': return [textOf(c.image), textOf(c.program),
      ...(Array.isArray(c.args) ? c.args.map(textOf) : [])].filter(Boolean).join(' ');
    case 'kafka': return textOf(c.topic);
    case 'nats': return textOf(c.subject);
    case 'amqp': return [textOf(c.exchange), textOf(c.routing_key)].filter(Boolean).join(' ');
    default: return '';
  }
}

/** The expression of a schedule as it was written. */
export function scheduleText(schedule: Schemas['Schedule']): string {
  if (typeof schedule === 'string') return schedule;
  const s = schedule as Schemas['ScheduleSpec'];
  return s.cron ?? s.rrule ?? (s.every ? `every ${s.every}` : s.at ? `at ${s.at}` : '');
}
