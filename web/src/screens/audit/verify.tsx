import { useRef, useState } from 'react';
import { api, unwrap } from '../../api/client';
import { count } from '../../lib/number';
import { Button, Code, Copy } from '../../ui/control';
import { Outcome } from '../../ui/mark';
import { ProblemView } from '../../ui/state';
import { addPart, type Verified } from './entries';
import css from './audit.module.css';

/** Checks the chain of hashes part by part, from the first entry to the last. */
export function VerifyChain({ newest }: { newest: number }) {
  const [result, setResult] = useState<Verified | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const stop = useRef<AbortController | null>(null);
  const run = async () => {
    const control = new AbortController();
    stop.current = control;
    setBusy(true);
    setError(null);
    setResult(null);
    try {
      let token: string | undefined;
      for (let part: Verified | null = null; !part?.done;) {
        const answer = await unwrap(
          api.GET('/api/v1/audit:verify', { params: { query: token ? { page_token: token } : {} }, signal: control.signal }),
        );
        part = addPart(answer);
        token = answer.next_page_token;
        setResult(part);
      }
    } catch (e) {
      if (!control.signal.aborted) setError(e as Error);
    } finally {
      setBusy(false);
    }
  };
  const total = Math.max(newest, result?.entries ?? 0, 1);
  return (
    <section className={css.verify} aria-label="Check of the chain">
      <div className="row wrap">
        <span className="grow">
          {!result && !busy && <>Each entry has a hash that covers the one before it: a changed or removed entry is found.</>}
          {(busy || result) && !result?.done && (
            <>
              Checked {count(result?.entries ?? 0)} of {count(total)} entries…
            </>
          )}
          {result?.done && !result.problem && <Outcome kind="succeeded">No entry was changed, of {count(result.entries)}.</Outcome>}
          {result?.problem && (
            <Outcome kind="failed">
              The first {count(result.entries)} entries are unchanged. {result.problem}
            </Outcome>
          )}
        </span>
        {busy ? (
          <Button icon="stop" onClick={() => stop.current?.abort()}>
            Stop
          </Button>
        ) : (
          <Button icon="check" onClick={() => void run()}>
            {result ? 'Verify again' : 'Verify the chain'}
          </Button>
        )}
      </div>
      {(busy || (result && !result.done)) && (
        <progress className={css.bar} max={total} value={result?.entries ?? 0} aria-label="Checked entries" />
      )}
      {result?.done && result.hash && (
        <p className={css.hash}>
          <span className="dim">Newest hash</span> <Code>{result.hash}</Code>
          <Copy text={result.hash} label="Copy the newest hash" />
          <span className="dim">Keep it elsewhere: it shows later whether entries were cut off at the end.</span>
        </p>
      )}
      {error && <ProblemView error={error} quiet />}
    </section>
  );
}
