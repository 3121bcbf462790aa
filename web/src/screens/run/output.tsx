import { useEffect, useRef, useState } from 'react';
import { api, unwrap, type Schemas } from '../../api/client';
import { useLive } from '../../api/live';
import { plainText } from '../../lib/ansi';
import { count } from '../../lib/number';
import { Button } from '../../ui/control';
import { Section } from '../../ui/page';
import { ProblemView } from '../../ui/state';
import css from './run.module.css';

/** The browser keeps the end of a long output. */
const keep = 1_000_000;

type Output = { text: string; total: number; lost: boolean; live: boolean; attempt: number; error: Error | null };

/** Follows what an attempt writes. Each request waits at the node until there is more. */
function useOutput(run: string, attempt: number, state: string): Output {
  const [out, setOut] = useState<Output>({ text: '', total: 0, lost: false, live: false, attempt: 0, error: null });
  const { paused } = useLive();
  const at = useRef({ key: '', total: 0, text: '' });
  useEffect(() => {
    const key = `${run} ${attempt} ${state === 'running' ? '' : 'ended'}`;
    if (at.current.key !== key) at.current = { key, total: 0, text: '' };
    const stop = new AbortController();
    const follow = async () => {
      for (let wait = 0; !stop.signal.aborted;) {
        let r: Schemas['RunOutput'];
        try {
          const query = { attempt, after: at.current.total, wait };
          r = await unwrap(api.GET('/api/v1/runs/{run}/output', { params: { path: { run }, query }, signal: stop.signal }));
        } catch (e) {
          if (stop.signal.aborted) return;
          setOut((o) => ({ ...o, error: e as Error }));
          return;
        }
        const lost = r.from > at.current.total;
        const text = (at.current.text + r.text).slice(-keep);
        at.current = { key, total: r.total, text };
        setOut((o) => ({ text, total: r.total, lost: o.lost || lost || text.length >= keep, live: r.live, attempt: r.attempt,
          error: null }));
        if (!r.live) return;
        wait = 20;
        while (document.hidden && !stop.signal.aborted) await new Promise((done) => setTimeout(done, 1000));
      }
    };
    if (!paused) void follow();
    return () => stop.abort();
  }, [run, attempt, state, paused]);
  return out;
}

/** The output of a command, while it runs and after it. Runs of other targets have none, and show nothing. */
export function OutputView({ run }: { run: Schemas['RunDetail'] }) {
  const [attempt, setAttempt] = useState(0);
  const [follow, setFollow] = useState(true);
  const out = useOutput(run.id, attempt, run.state);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (follow && out.live && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [out.text, out.live, follow]);
  if (out.error && run.attempts.some((a) => a.output)) return <ProblemView error={out.error} quiet />;
  if (out.total === 0 && !run.attempts.some((a) => a.output)) return null;
  const text = plainText(out.text);
  const download = () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
    link.download = `${run.id}-${out.attempt}.txt`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return (
    <Section title="Output" id="output" aside={
      <span className="row">
        {run.attempts.length > 1 && (
          <label className={css.pick}>
            Attempt{' '}
            <select value={attempt} onChange={(e) => setAttempt(Number(e.currentTarget.value))}>
              <option value={0}>last</option>
              {run.attempts.map((a) => <option key={a.attempt} value={a.attempt}>{a.attempt}</option>)}
            </select>
          </label>
        )}
        {out.live && <label className="row"><input type="checkbox" checked={follow}
          onChange={(e) => setFollow(e.currentTarget.checked)} />Follow</label>}
        <Button icon="import" onClick={download}>Download</Button>
      </span>
    }>
      {out.lost && <p className="dim">Only the end of the output is kept.</p>}
      <pre ref={box} className={css.output} tabIndex={0}
        aria-label="Output of the command">{text}{out.live && <span className={css.cursor} aria-hidden="true" />}</pre>
      <p className="dim">{count(out.total)} bytes{out.live && ', more may follow'}</p>
    </Section>
  );
}
