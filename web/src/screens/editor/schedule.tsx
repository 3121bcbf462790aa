import { Autocomplete, SegmentedControl } from '@mantine/core';
import { useMemo, useState } from 'react';
import { kinds, scheduleOf, withExpression, type Kind } from '../../lib/definition';
import { Button, TextButton } from '../../ui/control';
import { Issues, TextField } from '../../ui/input';
import { Calendars } from './calendars';
import { useEditing, useOption } from './state';
import css from './editor.module.css';

const names: Record<Kind, string> = { cron: 'Cron', every: 'Interval', rrule: 'Calendar rule', at: 'Once' };

const forms: Record<Kind, { label: string; placeholder: string; hint: string; examples: [string, string][] }> = {
  cron: {
    label: 'Expression',
    placeholder: '30 2 * * *',
    hint: '',
    examples: [
      ['0 9 * * 1-5', 'weekdays at 9'],
      ['30 2 * * *', 'each night'],
      ['H * * * *', 'each hour, spread'],
      ['0 8 L * *', 'last of the month'],
    ],
  },
  every: {
    label: 'Interval',
    placeholder: '15m',
    hint: 'Elapsed time, whatever the clocks do. For a time of day, use cron.',
    examples: [
      ['30s', ''],
      ['15m', ''],
      ['1h', ''],
      ['7d', ''],
    ],
  },
  rrule: {
    label: 'Rule (RFC 5545)',
    placeholder: 'FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17',
    hint: '',
    examples: [
      ['FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17', 'last Friday'],
      ['FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=8', 'every other Monday'],
    ],
  },
  at: {
    label: 'Time',
    placeholder: '2027-01-31T09:00:00',
    hint: 'Without an offset, it is read in the time zone below.',
    examples: [],
  },
};

/** When the job runs. */
export function ScheduleSection() {
  const { def, edit, issues, touch } = useEditing();
  const { kind, expression } = scheduleOf(def.schedule);
  const [drafts, setDrafts] = useState<Partial<Record<Kind, string>>>({});
  const form = forms[kind];
  const choose = (next: Kind) => {
    if (next === kind) return;
    setDrafts({ ...drafts, [kind]: expression });
    edit((d) => withExpression(d, next, drafts[next] ?? ''));
  };
  const write = (text: string) => edit((d) => withExpression(d, kind, text));
  return (
    <section className={css.section} aria-labelledby="schedule-head">
      <h2 id="schedule-head">Schedule</h2>
      <div className={css.kinds} role="radiogroup" aria-label="Kind of schedule">
        {kinds.map((k) => (
          <label key={k} className={css.kind} data-active={k === kind || undefined}>
            <input type="radio" name="schedule-kind" className="sr" checked={k === kind} onChange={() => choose(k)} />
            {names[k]}
          </label>
        ))}
      </div>
      <TextField
        label={form.label}
        mono
        big={css.expression}
        value={expression}
        onValue={write}
        onBlur={() => touch(`schedule.${kind}`)}
        placeholder={form.placeholder}
        issues={issues(`schedule.${kind}`, 'schedule')}
        hint={form.hint || undefined}
      />
      {kind === 'cron' && <CronFields expression={expression} />}
      {expression === '' && form.examples.length > 0 && (
        <div className={css.examples}>
          <span className="dim">For example</span>
          {form.examples.map(([e, what]) => (
            <TextButton key={e} onClick={() => write(e)}>
              <code>{e}</code>
              {what && <span className="dim"> {what}</span>}
            </TextButton>
          ))}
        </div>
      )}
      <div className={css.pair}>
        <ZoneField />
        <OptionField path="jitter" label="Jitter" placeholder="none" hint="Each run starts up to this much later." />
      </div>
      {kind !== 'every' && <ClockRules />}
      <Calendars />
      <More kind={kind} />
    </section>
  );
}

const cronNames = ['minute', 'hour', 'day', 'month', 'weekday'];

function CronFields({ expression }: { expression: string }) {
  const parts = expression.trim().split(/\s+/);
  if (parts.length < 5 || parts.length > 6) return null;
  const heads = parts.length === 6 ? ['second', ...cronNames] : cronNames;
  return (
    <p className={css.cronFields}>
      {parts.map((p, i) => (
        <span key={heads[i]}>
          <code>{p}</code> {heads[i]}
        </span>
      ))}
    </p>
  );
}

function OptionField({ path, label, placeholder, hint }: { path: string; label: string; placeholder?: string; hint?: string }) {
  return <TextField label={label} mono placeholder={placeholder} hint={hint} {...useOption([path])} />;
}

const zones = (): string[] => {
  const all = typeof Intl.supportedValuesOf === 'function' ? Intl.supportedValuesOf('timeZone') : [];
  return ['UTC', ...all.filter((z) => z !== 'UTC')];
};

function ZoneField() {
  const { value, onValue, issues, onBlur } = useOption(['timezone']);
  const data = useMemo(zones, []);
  return (
    <div className={css.zone}>
      <Autocomplete
        label="Time zone"
        placeholder="UTC"
        value={value}
        onChange={onValue}
        onBlur={onBlur}
        data={data}
        limit={40}
        spellCheck={false}
        error={issues.length > 0}
        maxDropdownHeight={280}
        comboboxProps={{ transitionProps: { duration: 0 } }}
        filter={({ options, search, limit }) => {
          const wanted = search.toLowerCase().trim().replaceAll(' ', '_');
          return options.filter((o) => 'value' in o && String(o.value).toLowerCase().includes(wanted)).slice(0, limit);
        }}
      />
      {issues.length > 0 && <Issues issues={issues} />}
    </div>
  );
}

function ClockRules() {
  const gap = useOption(['dst', 'gap']);
  const fold = useOption(['dst', 'fold']);
  return (
    <div className={css.rules}>
      <Rule
        label="If the clock skips the time"
        value={gap.value || 'shift'}
        set={gap.onValue}
        unset="shift"
        issues={gap.issues}
        data={[
          { value: 'shift', label: 'Run when the gap ends' },
          { value: 'skip', label: 'Skip' },
        ]}
      />
      <Rule
        label="If the clock repeats it"
        value={fold.value || 'first'}
        set={fold.onValue}
        unset="first"
        issues={fold.issues}
        data={[
          { value: 'first', label: 'First' },
          { value: 'second', label: 'Second' },
          { value: 'both', label: 'Both' },
        ]}
      />
    </div>
  );
}

function Rule({
  label,
  value,
  set,
  unset,
  data,
  issues,
}: {
  label: string;
  value: string;
  set: (v: string) => void;
  unset: string;
  data: { value: string; label: string }[];
  issues: ReturnType<typeof useOption>['issues'];
}) {
  return (
    <div className={css.rule}>
      <span>{label}</span>
      <div>
        <SegmentedControl aria-label={label} size="xs" data={data} value={value} onChange={(v) => set(v === unset ? '' : v)} />
        {issues.length > 0 && <Issues issues={issues} />}
      </div>
    </div>
  );
}

/** Start, end and anchor: hidden until one is set or asked for. */
function More({ kind }: { kind: Kind }) {
  const start = useOption(['start_at']);
  const end = useOption(['end_at']);
  const anchor = useOption(['anchor']);
  const [open, setOpen] = useState(false);
  const anchored = kind === 'every' || kind === 'rrule';
  if (
    !open &&
    !start.value &&
    !end.value &&
    !(anchored && anchor.value) &&
    start.issues.length + end.issues.length + anchor.issues.length === 0
  ) {
    return (
      <div className={css.adder}>
        <Button tone="quiet" icon="plus" onClick={() => setOpen(true)}>
          {anchored ? 'Start, end and anchor' : 'Start and end'}
        </Button>
      </div>
    );
  }
  return (
    <div className={css.pair}>
      <TextField label="Nothing before" mono placeholder="2027-01-01T00:00:00Z" {...start} />
      <TextField label="Nothing at or after" mono placeholder="2028-01-01T00:00:00Z" {...end} />
      {anchored && (
        <TextField
          label={kind === 'every' ? 'Counted from' : 'Start of the series (DTSTART)'}
          mono
          placeholder="1970-01-01T00:00:00Z"
          {...anchor}
        />
      )}
    </div>
  );
}
