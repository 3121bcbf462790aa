import { useEffect, useRef, useState } from 'react';
import { commands } from '../../lib/commands';
import { inputForm, type Definition } from '../../lib/definition';
import { equalExact, isObject, TextError } from '../../lib/json';
import { Command, Copy } from '../../ui/control';
import { Issues, type Issue } from '../../ui/input';
import { Skeleton } from '../../ui/state';
import css from './yaml-view.module.css';

type YAML = typeof import('../../lib/yaml');

export type Draft = { text: string; def: Definition };

/** The reader and writer of YAML, loaded when they are needed. */
export function useYAML(): YAML | null {
  const [yaml, setYAML] = useState<YAML | null>(null);
  useEffect(() => {
    let gone = false;
    void import('../../lib/yaml').then((m) => {
      if (!gone) setYAML(m);
    });
    return () => {
      gone = true;
    };
  }, []);
  return yaml;
}

function read(yaml: YAML, text: string): { def: Definition } | { error: TextError } {
  try {
    const items = yaml.fromYAML(text);
    const second = items[1];
    if (second) throw new TextError('There is a second job. This page edits one; Import takes files with many.', second.line, 1);
    const only = items[0];
    if (!only || !isObject(only.value))
      throw new TextError('It is not a job: write its fields, such as name and schedule.', only?.line ?? 1, 1);
    return { def: only.value };
  } catch (e) {
    if (e instanceof TextError) return { error: e };
    throw e;
  }
}

type Props = {
  def: Definition;
  write: (def: Definition) => void;
  issues: Issue[];
  setBroken: (problem: string | undefined) => void;
  /** The text as the user left it, with its comments. It is used as long as it means the same as the definition. */
  draft: { current: Draft | null };
};

/** The same job as a text: what belfry apply reads. */
export function YAMLView(props: Props) {
  const yaml = useYAML();
  return yaml ? <Text yaml={yaml} {...props} /> : <Skeleton label="Loading the YAML view" />;
}

function Text({ yaml, def, write, issues, setBroken, draft }: Props & { yaml: YAML }) {
  const [text, setText] = useState(() =>
    draft.current && equalExact(draft.current.def, def) ? draft.current.text : yaml.toYAML(inputForm(def)),
  );
  const [error, setError] = useState<TextError | null>(null);
  const gutter = useRef<HTMLPreElement>(null);
  useEffect(() => () => setBroken(undefined), []);
  const change = (next: string) => {
    setText(next);
    const r = read(yaml, next);
    if ('error' in r) {
      setError(r.error);
      setBroken(`line ${r.error.line}: ${r.error.message}`);
      return;
    }
    setError(null);
    setBroken(undefined);
    draft.current = { text: next, def: r.def };
    write(r.def);
  };
  const lines = text.split('\n').length;
  return (
    <section className={css.view} aria-labelledby="yaml-head">
      <div className={css.head}>
        <h2 id="yaml-head">Definition as YAML</h2>
        <span className="grow" />
        <Copy text={text} label="Copy the YAML" />
      </div>
      <div className={css.editor} data-wrong={error ? true : undefined}>
        <pre ref={gutter} className={css.gutter} aria-hidden="true">
          {Array.from({ length: lines }, (_, i) => (
            <span key={i} data-wrong={error?.line === i + 1 || undefined}>
              {i + 1}
              {'\n'}
            </span>
          ))}
        </pre>
        <textarea
          aria-labelledby="yaml-head"
          aria-describedby="yaml-issues"
          aria-invalid={error ? true : undefined}
          className={css.text}
          value={text}
          spellCheck={false}
          wrap="off"
          autoComplete="off"
          autoCapitalize="off"
          rows={Math.min(Math.max(lines + 1, 16), 60)}
          onChange={(e) => change(e.currentTarget.value)}
          onScroll={(e) => {
            if (gutter.current) gutter.current.scrollTop = e.currentTarget.scrollTop;
          }}
        />
      </div>
      <div id="yaml-issues">
        {error ? (
          <Issues issues={[{ field: '', problem: `Line ${error.line}: ${error.message}` }]} />
        ) : (
          issues.length > 0 && <Issues issues={issues} at="" />
        )}
      </div>
      <p className={css.note}>
        The same as a file: <Command>{commands.apply}</Command>
      </p>
    </section>
  );
}
