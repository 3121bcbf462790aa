import { useEffect, useRef, useState, type DragEvent } from 'react';
import { SegmentedControl } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useBlocker } from '@tanstack/react-router';
import { useData } from '../../api/live';
import { useSession } from '../../api/session';
import { commands } from '../../lib/commands';
import { TextError } from '../../lib/json';
import { count, plural } from '../../lib/number';
import { Button, Command } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { Icon } from '../../ui/icon';
import { TextAreaField, TextField } from '../../ui/input';
import { Page } from '../../ui/page';
import { Forbidden, ProblemView, Skeleton } from '../../ui/state';
import { useDebounced } from '../editor/preview';
import { apply, compare, readCrontab, type CrontabOptions, type Done, type Keys, type Row } from './api';
import { formatOf, maxBytes, readJobs, unreadable, type Format } from './read';
import { Rows } from './rows';
import css from './import.module.css';

type Source = { id: number; name: string; text: string };

/** The screen: what would this file change? */
export default function ImportScreen() {
  const { role, may } = useSession();
  const [source, setSource] = useState<Source | null>(null);
  const [format, setFormat] = useState<Format>('jobs');
  const [wrong, setWrong] = useState('');
  const crumbs = [{ label: 'Jobs', link: { to: '/jobs' } }];
  if (!may('editor')) {
    return (
      <Page title="Import jobs" crumbs={crumbs}>
        <Forbidden detail={`Jobs are created and changed with the role editor. Your key has the role ${role}.`} />
      </Page>
    );
  }
  const take = (name: string, text: string, size: number) => {
    const problem = unreadable(size, text);
    setWrong(problem ?? '');
    if (problem) return;
    setFormat(formatOf(name, text));
    setSource({ id: Date.now(), name, text });
  };
  const takeFile = async (file: File | undefined) => {
    if (!file) return;
    take(file.name, file.size > maxBytes ? '' : await file.text(), file.size);
  };
  return (
    <Page title="Import jobs" sub="What would this file change?" crumbs={crumbs}>
      {source ? (
        <Plan key={source.id} source={source} format={format} setFormat={setFormat} reset={() => setSource(null)} />
      ) : (
        <Choose take={take} takeFile={(f) => void takeFile(f)} wrong={wrong} />
      )}
    </Page>
  );
}

const sample = `name: nightly-report
schedule: {cron: 30 2 * * *, timezone: Europe/Berlin}
target: {kind: http, config: {url: https://example.com/report}}`;

/** A file by drop or by choice, or a text. */
function Choose({
  take,
  takeFile,
  wrong,
}: {
  take: (name: string, text: string, size: number) => void;
  takeFile: (file: File | undefined) => void;
  wrong: string;
}) {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const [pasted, setPasted] = useState('');
  const drag = (on: boolean) => (e: DragEvent) => {
    e.preventDefault();
    setOver(on);
  };
  return (
    <>
      <div
        className={css.drop}
        data-over={over || undefined}
        onDragOver={drag(true)}
        onDragLeave={drag(false)}
        onDrop={(e) => {
          drag(false)(e);
          takeFile(e.dataTransfer.files[0]);
        }}
      >
        <Icon name="import" size={24} />
        <h2>Drop a YAML, JSON or crontab file here</h2>
        <p>It is read in your browser and compared through the API. Nothing changes before you apply it.</p>
        <Button tone="primary" onClick={() => input.current?.click()}>
          Choose a file
        </Button>
        <input
          ref={input}
          type="file"
          className="sr"
          tabIndex={-1}
          aria-label="File with jobs"
          accept=".yaml,.yml,.json,.ndjson,.jsonl,.txt,.cron,.crontab,text/*"
          onChange={(e) => {
            takeFile(e.currentTarget.files?.[0]);
            e.currentTarget.value = '';
          }}
        />
      </div>
      {wrong && (
        <p className={css.wrong} role="alert">
          <Icon name="warning" size={14} />
          {wrong}
        </p>
      )}
      <form
        className={css.paste}
        onSubmit={(e) => {
          e.preventDefault();
          take('', pasted, new Blob([pasted]).size);
        }}
      >
        <TextAreaField label="Or paste it" mono rows={8} value={pasted} onValue={setPasted} placeholder={sample} />
        <div>
          <Button type="submit" blocked={pasted.trim() === '' ? 'Paste jobs or a crontab first.' : undefined} onClick={undefined}>
            Compare
          </Button>
        </div>
      </form>
      <p className={css.cli}>
        The same on the command line: <Command>{commands.diff}</Command>
      </p>
    </>
  );
}

/** What the file would change, and the way to apply it. */
function Plan({
  source,
  format,
  setFormat,
  reset,
}: {
  source: Source;
  format: Format;
  setFormat: (f: Format) => void;
  reset: () => void;
}) {
  const [options, setOptions] = useState<CrontabOptions>({
    url: '',
    timezone: '',
    prefix: '',
    system: /(^|\n)\s*(\S+\s+){5}root\s/.test(source.text),
  });
  const settled = useDebounced(options, 400);
  const ready = format === 'jobs' || settled.url.trim() !== '';
  const q = useData({
    key: ['import', source.id, format, format === 'crontab' ? settled : null],
    get: (signal) => plan(source.text, format, settled, signal),
    enabled: ready,
    keep: true,
  });
  const run = useApply(q.data?.rows ?? []);
  const leave = useBlocker({ shouldBlockFn: () => run.busy, enableBeforeUnload: () => run.busy, withResolver: true });
  const lines = source.text.trimEnd().split('\n').length;
  return (
    <>
      <div className={css.source}>
        <Icon name="audit" />
        <b className="clip">{source.name || 'Pasted text'}</b>
        <span className="dim">{plural(lines, 'line')}</span>
        <span className="grow" />
        {!run.started && (
          <SegmentedControl
            aria-label="Format"
            size="xs"
            value={format}
            onChange={(v) => setFormat(v as Format)}
            data={[
              { value: 'jobs', label: 'YAML or JSON' },
              { value: 'crontab', label: 'Crontab' },
            ]}
          />
        )}
        <Button onClick={reset} blocked={run.busy ? 'The import is running.' : undefined}>
          Another file
        </Button>
      </div>
      {format === 'crontab' && !run.started && <Crontab options={options} set={setOptions} />}
      {!ready ? (
        <p className="dim">Say where the runs go, and the lines are compared.</p>
      ) : q.data?.wrong ? (
        <p className={css.wrong} role="alert">
          <Icon name="warning" size={14} />
          Line {q.data.wrong.line}: {q.data.wrong.message}
        </p>
      ) : q.data?.rows ? (
        <Rows
          rows={q.data.rows}
          done={run.done}
          actions={<Actions rows={q.data.rows} run={run} />}
          notice={
            <>
              {run.error && <ProblemView error={run.error} quiet />}
              {q.data.notes?.map((n) => (
                <p key={n} className="dim">
                  {n}
                </p>
              ))}
            </>
          }
        />
      ) : q.error ? (
        <ProblemView error={q.error} retry={() => void q.refetch()} />
      ) : (
        <Skeleton label="Comparing" />
      )}
      <Dialog
        title="Stop the import?"
        open={leave.status === 'blocked'}
        close={() => leave.reset?.()}
        action="Leave"
        danger
        act={() => {
          run.stop();
          leave.proceed?.();
        }}
      >
        <p>Jobs that are already applied stay. The others are not applied.</p>
      </Dialog>
    </>
  );
}

async function plan(
  text: string,
  format: Format,
  options: CrontabOptions,
  signal: AbortSignal,
): Promise<{ rows?: Row[]; notes?: string[]; wrong?: TextError }> {
  try {
    const contents =
      format === 'crontab' ? await readCrontab(text, options, signal) : readJobs(text, await import('../../lib/yaml'));
    return { rows: await compare(contents, signal), notes: contents.notes ?? [] };
  } catch (e) {
    if (e instanceof TextError) return { wrong: e };
    throw e;
  }
}

/** A crontab says what to run, but not where: its commands are sent to a URL. */
function Crontab({ options, set }: { options: CrontabOptions; set: (o: CrontabOptions) => void }) {
  return (
    <div className={css.crontab}>
      <TextField
        label="URL that gets the commands"
        mono
        placeholder="https://runner.example.com/run"
        value={options.url}
        hint="{name} and {user} stand for those of the job."
        onValue={(url) => set({ ...options, url })}
      />
      <TextField
        label="Time zone of the machine"
        mono
        placeholder="UTC"
        value={options.timezone}
        onValue={(timezone) => set({ ...options, timezone })}
      />
      <TextField
        label="Prefix of the names"
        mono
        placeholder="none"
        value={options.prefix}
        onValue={(prefix) => set({ ...options, prefix })}
      />
      <label className={css.tick}>
        <input type="checkbox" checked={options.system} onChange={(e) => set({ ...options, system: e.currentTarget.checked })} />
        Users before the commands, as in /etc/crontab
      </label>
    </div>
  );
}

/** The state of applying. What is done stays done; a second try goes on with the rest. */
function useApply(rows: Row[]) {
  const client = useQueryClient();
  const [done, setDone] = useState<ReadonlyMap<number, Done>>(new Map());
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const keys = useRef<Keys>(new Map());
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const start = async () => {
    abort.current = new AbortController();
    setBusy(true);
    setError(null);
    const found = new Map(done);
    const rest = rows.filter((r) => !found.has(r.id));
    let drawn = 0;
    try {
      await apply(
        rest,
        keys.current,
        (row, result) => {
          found.set(row.id, result);
          if (Date.now() - drawn > 100) {
            // the table is not drawn for each of thousands
            drawn = Date.now();
            setDone(new Map(found));
          }
        },
        abort.current.signal,
      );
    } catch (e) {
      if (!abort.current.signal.aborted) setError(e instanceof Error ? e : new Error(String(e)));
    } finally {
      setDone(new Map(found));
      setBusy(false);
      void client.invalidateQueries({ predicate: (x) => x.queryKey[0] !== 'import' });
    }
  };
  return { start: () => void start(), stop: () => abort.current?.abort(), done, busy, error, started: busy || done.size > 0 };
}

const typedFrom = 1000;

function Actions({ rows, run }: { rows: Row[]; run: ReturnType<typeof useApply> }) {
  const [asking, setAsking] = useState(false);
  const [typed, setTyped] = useState('');
  const of = (result: Row['result']) => rows.filter((r) => r.result === result).length;
  const todo = of('create') + of('change');
  const left = rows.filter((r) => (r.result === 'create' || r.result === 'change') && !run.done.has(r.id)).length;
  if (run.busy) {
    return (
      <>
        <progress className={css.progress} max={todo} value={todo - left} aria-label="Progress of the import" />
        <span className="num">
          {count(todo - left)} of {count(todo)}
        </span>
        <Button icon="stop" onClick={run.stop}>
          Stop
        </Button>
      </>
    );
  }
  if (run.started && left === 0) return null;
  const label = run.started ? `Go on with ${plural(left, 'job')}` : `Apply ${plural(todo, 'change')}`;
  return (
    <>
      <Button tone="primary" onClick={() => setAsking(true)} blocked={todo === 0 ? 'The file changes nothing.' : undefined}>
        {label}
      </Button>
      <Dialog
        title={label}
        open={asking}
        close={() => setAsking(false)}
        action="Apply"
        act={() => {
          setAsking(false);
          run.start();
        }}
        blocked={todo > typedFrom && typed !== String(todo) ? `Type ${todo} first.` : undefined}
      >
        <p>
          {plural(of('create'), 'job')} will be created and {plural(of('change'), 'job')} replaced. {plural(of('same'), 'job')}{' '}
          {of('same') === 1 ? 'stays' : 'stay'} as {of('same') === 1 ? 'it is' : 'they are'}
          {of('refused') > 0 && <>, and {plural(of('refused'), 'line')} cannot be taken</>}. Jobs that are not in the file stay too.
        </p>
        {todo > typedFrom && <TextField label={`Type ${todo} to confirm`} value={typed} onValue={setTyped} inputMode="numeric" />}
      </Dialog>
    </>
  );
}
