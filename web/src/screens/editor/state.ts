import { createContext, useContext } from 'react';
import { getIn, scheduleOf, setIn, withOption, type Definition, type Path } from '../../lib/definition';
import { Raw, type Exact } from '../../lib/json';
import type { Issue } from '../../ui/input';

// What the sections of the form share. The definition is the only state; each input shows and changes one part of it.

export type Editing = {
  def: Definition;
  edit: (change: (def: Definition) => Definition) => void;
  /** The problems that are shown at an input. */
  issues: (...fields: string[]) => Issue[];
  /** The user has left an input: its problems are shown from now on. */
  touch: (field: string) => void;
  /** A text of the form that cannot be read, such as a payload that is not JSON. undefined: it can. */
  setBroken: (field: string, problem: string | undefined) => void;
  broken: Readonly<Record<string, string>>;
};

export const EditingContext = createContext<Editing | null>(null);

export function useEditing(): Editing {
  const e = useContext(EditingContext);
  if (!e) throw new Error('useEditing outside of the editor');
  return e;
}

export const asText = (v: Exact | undefined): string =>
  v === undefined || v === null ? '' : v instanceof Raw ? v.source : typeof v === 'string' ? v : JSON.stringify(v);

/** A field of the definition as a text. An empty text removes it. */
export function useField(
  path: Path,
  parse: (text: string) => Exact = (t) => t,
): { value: string; onValue: (text: string) => void; issues: Issue[]; onBlur: () => void } {
  const e = useEditing();
  const field = path.join('.');
  return {
    value: asText(getIn(e.def, path)),
    onValue: (text) => e.edit((d) => setIn(d, path, text === '' ? undefined : parse(text))),
    issues: e.issues(field),
    onBlur: () => e.touch(field),
  };
}

/** An option of the schedule as a text. */
export function useOption(path: Path): { value: string; onValue: (text: string) => void; issues: Issue[]; onBlur: () => void } {
  const e = useEditing();
  const field = 'schedule.' + path.join('.');
  return {
    value: asText(getIn(scheduleOf(e.def.schedule).spec, path)),
    onValue: (text) => e.edit((d) => withOption(d, path, text === '' ? undefined : text)),
    issues: e.issues(field),
    onBlur: () => e.touch(field),
  };
}

/** Where problems are shown. Others are shown above the form. */
export const anchors = [
  'name',
  'description',
  'owner',
  'labels',
  'queue',
  'priority',
  'payload',
  'schedule',
  'schedule.cron',
  'schedule.every',
  'schedule.rrule',
  'schedule.at',
  'schedule.timezone',
  'schedule.anchor',
  'schedule.start_at',
  'schedule.end_at',
  'schedule.jitter',
  'schedule.dst.gap',
  'schedule.dst.fold',
  'schedule.calendars',
  'target',
  'target.kind',
  'target.config',
  'target.config.url',
  'target.config.method',
  'target.config.headers',
  'target.config.auth',
  'target.config.broker',
  'target.config.handler',
  'retry',
  'missed',
  'overlap',
  'timeout',
  'report_timeout',
  'deadline',
  'delivery',
  'concurrency',
  'idempotency_key',
  'pause_after_failures',
  'keep_finished_for',
] as const;

/** The input at which a problem is shown: the longest anchor that its field begins with. */
export function anchorOf(field: string): string | undefined {
  let best: string | undefined;
  for (const a of anchors) {
    if ((field === a || field.startsWith(a + '.') || field.startsWith(a + '[')) && a.length > (best?.length ?? 0)) best = a;
  }
  return best;
}
