import { TextInput } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react';
import { snapshot, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { count, plural } from '../../lib/number';
import { useUrl } from '../../lib/search';
import { clock, date, duration } from '../../lib/time';
import { Button, Chip, Code, LinkButton, TextButton } from '../../ui/control';
import { Mark } from '../../ui/mark';
import { Page } from '../../ui/page';
import { Empty, Loaded } from '../../ui/state';
import { median, move, rowsOf, scaleOf, shade } from './heat';
import { SpreadDialog } from './spread';
import css from './load.module.css';

type Load = Schemas['Load'];

/** When is it busy, and what can be spread? */
export default function LoadScreen() {
  const [url, setUrl] = useUrl();
  const filter: Record<string, string> = {};
  if (url.queue) filter.queue = url.queue;
  if (url.label) filter.label = url.label;
  const query = new URLSearchParams(filter).toString();
  const load = useData<Load>({
    key: ['load', filter],
    get: (signal) => snapshot(`/api/v1/load${query ? `?${query}` : ''}`, signal),
    every: 30_000,
    keep: true,
  });
  return (
    <Page
      title="Load"
      sub={
        <>
          Runs due per minute, next 24 hours, UTC
          {load.data && !load.data.exact && <>, estimated from {Math.round(load.data.fraction * 100)} % of the jobs</>}
        </>
      }
    >
      <Filters />
      <Loaded query={load} rows={12}>
        {(l) =>
          l.counts.every((n) => n === 0) ? (
            <Empty
              title="Nothing is due in the next 24 hours"
              action={
                query ? <TextButton onClick={() => setUrl({ queue: undefined, label: undefined })}>Clear the filter</TextButton> : null
              }
            />
          ) : (
            <Heat load={l} filter={filter} />
          )
        }
      </Loaded>
    </Page>
  );
}

function Filters() {
  const [url, setUrl] = useUrl();
  const [text, setText] = useState('');
  const add = () => {
    const value = text.trim();
    if (value) setUrl(value.includes('=') ? { label: value } : { queue: value }, true);
    setText('');
  };
  return (
    <form
      className={css.filters}
      onSubmit={(e) => {
        e.preventDefault();
        add();
      }}
    >
      <TextInput
        aria-label="Filter by queue, or by label as key=value"
        placeholder="queue, or label key=value"
        value={text}
        data-filter
        onChange={(e) => setText(e.currentTarget.value)}
        w={240}
      />
      {url.queue && <Chip name="queue" value={url.queue} onRemove={() => setUrl({ queue: undefined })} />}
      {url.label && <Chip name="label" value={url.label} onRemove={() => setUrl({ label: undefined })} />}
    </form>
  );
}

function Heat({ load, filter }: { load: Load; filter: Record<string, string> }) {
  const [url, setUrl] = useUrl();
  const from = Date.parse(load.from);
  const rows = useMemo(() => rowsOf(from, load.counts), [from, load.counts]);
  const scale = useMemo(() => scaleOf(load.counts, load.capacity), [load.counts, load.capacity]);
  const middle = median(load.counts);
  const busy = load.hot.filter((h) => h.count > 1.2 * middle);
  const asked = url.at ? Date.parse(url.at) : NaN;
  const hottest = load.hot[0] ? Date.parse(load.hot[0].at) : from;
  const chosen = Number.isNaN(asked) || asked < from || asked >= from + load.counts.length * 60_000 ? hottest : asked;
  const n = load.counts[(chosen - from) / 60_000] ?? 0;
  const choose = (at: number) => setUrl({ at: new Date(at).toISOString() });
  const grid = useRef<HTMLDivElement>(null);
  const byKey = useRef(false);
  useEffect(() => {
    if (!byKey.current) return;
    byKey.current = false;
    grid.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
  }, [chosen]);
  const key = (e: KeyboardEvent) => {
    const to = move(rows, chosen, e.key);
    if (to === null) return;
    e.preventDefault();
    byKey.current = true;
    choose(to);
  };
  return (
    <div className={css.columns}>
      <div>
        <div className={css.legend} aria-hidden="true">
          <span>0</span>
          {[0, 1, 2, 3, 4, 5].map((s) => (
            <i key={s} data-shade={s} />
          ))}
          <span>{count(scale.top)}</span>
          {load.capacity !== undefined && (
            <>
              <i data-shade="6" />
              <i data-shade="7" />
              <span>over capacity, twice over</span>
            </>
          )}
        </div>
        <div className={css.head} aria-hidden="true">
          <span />
          {[0, 15, 30, 45].map((m) => (
            <span key={m}>:{String(m).padStart(2, '0')}</span>
          ))}
        </div>
        {/* One stop for the Tab key; arrow keys move within the grid. */}
        <div role="grid" aria-label="Runs due per minute. Arrow keys move." ref={grid} className={css.grid} onKeyDown={key}>
          {rows.map((row, r) => (
            <div role="row" key={row.hour} className={css.row}>
              <span role="rowheader" className={css.hour}>
                {(r === 0 || new Date(row.hour).getUTCHours() === 0) && <span className={css.day}>{date(row.hour)}</span>}
                {clock(row.hour).slice(0, 2)}
              </span>
              {row.cells.map((cell, i) =>
                cell === null ? (
                  <span key={i} role="gridcell" className={css.none} />
                ) : (
                  <span
                    key={i}
                    role="gridcell"
                    className={css.cell}
                    data-shade={shade(cell.count, scale)}
                    tabIndex={cell.at === chosen ? 0 : -1}
                    aria-selected={cell.at === chosen}
                    aria-label={`${clock(cell.at)} UTC: ${plural(cell.count, 'run')}`}
                    onClick={() => choose(cell.at)}
                  />
                ),
              )}
            </div>
          ))}
        </div>
        {busy.length > 0 && (
          <div className={css.hot}>
            <span className="dim">Busiest</span>
            {busy.map((h) => (
              <button key={h.at} type="button" aria-pressed={Date.parse(h.at) === chosen} onClick={() => choose(Date.parse(h.at))}>
                <i data-shade={shade(h.count, scale)} aria-hidden="true" />
                <b>{clock(Date.parse(h.at))}</b> {count(h.count)}
              </button>
            ))}
          </div>
        )}
        <Twin load={load} from={from} />
      </div>
      <Minute at={chosen} n={n} middle={middle} load={load} filter={filter} />
    </div>
  );
}

/** What is due in the chosen minute. */
function Minute({ at, n, middle, load, filter }: { at: number; n: number; middle: number; load: Load; filter: Record<string, string> }) {
  const session = useSession();
  const [spread, setSpread] = useState(false);
  const hot = load.hot.find((h) => Date.parse(h.at) === at);
  const times = middle > 0 ? n / middle : 0;
  const end = new Date(at + 60_000).toISOString();
  const filtered = Object.keys(filter).length > 0;
  return (
    <aside className={css.minute} aria-label="The chosen minute">
      <p className="dim">
        {date(at)}, {clock(at)} UTC
      </p>
      <p className={css.big}>
        {load.exact ? '' : '≈ '}
        {count(n)} <span>{n === 1 ? 'run' : 'runs'} due</span>
      </p>
      {times >= 2 && (
        <p className="warn row">
          <Mark kind="late" label="" />
          {Math.round(times)} times the median minute
        </p>
      )}
      {load.capacity !== undefined && n > load.capacity && (
        <p>
          The queue starts at most <b>{count(load.capacity)}</b> in a minute. The last of these starts about{' '}
          <b>{duration(((n - load.capacity) / load.capacity) * 60_000)}</b> late.
        </p>
      )}
      {hot && hot.schedules.length > 0 && (
        <>
          <h2>Schedules of this minute</h2>
          <ul className={css.schedules}>
            {hot.schedules.map((s, i) => (
              <li key={i}>
                <span>{s.words}</span>
                <b className="num">{count(s.count)}</b>
              </li>
            ))}
            {rest(hot) > 0 && (
              <li className="dim">
                <span>other schedules</span>
                <span className="num">{count(rest(hot))}</span>
              </li>
            )}
          </ul>
        </>
      )}
      <div className="row wrap">
        {session.may('editor') && n > 1 && (
          <Button tone="primary" icon="spread" onClick={() => setSpread(true)}>
            Spread these…
          </Button>
        )}
        <LinkButton to="/jobs" search={(filtered ? filter : { due_from: new Date(at).toISOString(), due_to: end }) as never}>
          Show jobs
        </LinkButton>
      </div>
      <p className="dim">
        {filtered ? 'All jobs of the filter are listed: a list by due time has no other filter.'
          : 'A job is listed only if this is its next due time.'} <Link to="/jobs">All jobs</Link>
      </p>
      {spread && <SpreadDialog at={at} filter={filter} close={() => setSpread(false)} />}
    </aside>
  );
}

const rest = (hot: Load['hot'][number]) => hot.count - hot.schedules.reduce((n, s) => n + s.count, 0);

function Twin({ load, from }: { load: Load; from: number }) {
  const [open, setOpen] = useState(false);
  return (
    <details className={css.twin} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Show as table</summary>
      {open && (
        <table>
          <thead>
            <tr>
              <th>Minute (UTC)</th>
              <th>Runs due</th>
            </tr>
          </thead>
          <tbody>
            {load.counts.map(
              (n, i) =>
                n > 0 && (
                  <tr key={i}>
                    <td>
                      {date(from + i * 60_000)} {clock(from + i * 60_000)}
                    </td>
                    <td>{count(n)}</td>
                  </tr>
                ),
            )}
          </tbody>
        </table>
      )}
      <p className="dim">
        The same numbers: <Code>{commands.load}</Code>
      </p>
    </details>
  );
}
