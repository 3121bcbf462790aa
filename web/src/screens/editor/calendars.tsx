import { objectOf, scheduleOf, setIn, withOption } from '../../lib/definition';
import { isObject, type Exact, type ExactObject } from '../../lib/json';
import { Button } from '../../ui/control';
import { Issues, TextField, useText } from '../../ui/input';
import { useEditing } from './state';
import css from './editor.module.css';

const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];

const texts = (v: Exact | undefined): string[] => (Array.isArray(v) ? v.filter((x): x is string => typeof x === 'string') : []);

/** Dates, weekdays and windows of the day on which nothing runs. */
export function Calendars() {
  const { def, edit, issues } = useEditing();
  const list = scheduleOf(def.schedule).spec.calendars;
  const calendars = Array.isArray(list) ? list : [];
  const write = (next: Exact[]) => edit((d) => withOption(d, ['calendars'], next.length > 0 ? next : undefined));
  const wrong = issues('schedule.calendars');
  const add = () => write([...calendars, objectOf([])]);
  return (
    <div className={css.calendars}>
      {calendars.map((c, i) => (
        <Calendar
          key={i}
          value={isObject(c) ? c : objectOf([])}
          number={i + 1}
          write={(next) => write(calendars.with(i, next))}
          remove={() => write(calendars.toSpliced(i, 1))}
        />
      ))}
      {wrong.length > 0 && <Issues issues={wrong} at="schedule.calendars" />}
      <div className={css.adder}>
        <Button tone="quiet" icon="calendar" onClick={add}>
          {calendars.length > 0 ? 'Leave out more' : 'Leave out dates, weekdays or hours'}
        </Button>
      </div>
    </div>
  );
}

function Calendar({
  value,
  number,
  write,
  remove,
}: {
  value: ExactObject;
  number: number;
  write: (next: ExactObject) => void;
  remove: () => void;
}) {
  const days = new Set(texts(value.weekdays).map((d) => d.toLowerCase().slice(0, 3)));
  const toggle = (day: string) => {
    const next = weekdays.filter((d) => (d === day ? !days.has(d) : days.has(d)));
    write(setIn(value, ['weekdays'], next.length > 0 ? next : undefined));
  };
  return (
    <fieldset className={css.calendar}>
      <legend className="sr">Calendar {number}: what is left out</legend>
      <div className={css.calendarHead}>
        <span>Except</span>
        <div className={css.days} role="group" aria-label="Weekdays">
          {weekdays.map((d) => (
            <button key={d} type="button" aria-pressed={days.has(d)} onClick={() => toggle(d)}>
              {d[0]!.toUpperCase() + d.slice(1)}
            </button>
          ))}
        </div>
        <span className="grow" />
        <Button tone="quiet" iconOnly icon="close" onClick={remove}>{`Remove calendar ${number}`}</Button>
      </div>
      <div className={css.pair}>
        <ListField
          label="Dates"
          placeholder="12-25, 2026-12-24/2027-01-01"
          value={texts(value.dates)}
          write={(v) => write(setIn(value, ['dates'], v))}
        />
        <ListField
          label="Hours"
          placeholder="22:00-06:00"
          value={texts(value.windows)}
          write={(v) => write(setIn(value, ['windows'], v))}
        />
      </div>
    </fieldset>
  );
}

const list = {
  format: (v: string[]) => v.join(', '),
  parse: (t: string) =>
    t
      .split(',')
      .map((x) => x.trim())
      .filter(Boolean),
  same: (a: string[], b: string[]) => a.join('\n') === b.join('\n'),
};

function ListField({
  label,
  placeholder,
  value,
  write,
}: {
  label: string;
  placeholder: string;
  value: string[];
  write: (v: string[] | undefined) => void;
}) {
  const [text, setText] = useText(value, list);
  const { touch } = useEditing();
  return (
    <TextField
      label={label}
      mono
      placeholder={placeholder}
      value={text}
      onBlur={() => touch('schedule.calendars')}
      onValue={(t) => {
        setText(t);
        const v = list.parse(t);
        write(v.length > 0 ? v : undefined);
      }}
    />
  );
}
