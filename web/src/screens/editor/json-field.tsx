import { useEffect, useState } from 'react';
import { equalExact, formatExact, parseExact, TextError, type Exact } from '../../lib/json';
import { TextAreaField, type Issue } from '../../ui/input';
import { useEditing } from './state';
import css from './editor.module.css';

type Props = {
  label: string;
  field: string;
  value: Exact | undefined;
  write: (value: Exact | undefined) => void;
  placeholder?: string;
  hint?: string;
  issues: Issue[];
  rows?: number;
};

const read = (text: string): { value: Exact | undefined } | { error: TextError } => {
  if (text.trim() === '') return { value: undefined };
  try {
    return { value: parseExact(text) };
  } catch (e) {
    if (e instanceof TextError) return { error: e };
    throw e;
  }
};

const problemOf = (e: TextError): string => `line ${e.line}, column ${e.column}: ${e.message}`;

/** JSON as a text with exact numbers. An error names its line. While there is one, the definition keeps the last value. */
export function JSONField({ label, field, value, write, placeholder, hint, issues, rows = 4 }: Props) {
  const { setBroken, touch } = useEditing();
  const [typed, setTyped] = useState<string | null>(null);
  const parsed = typed === null ? null : read(typed);
  const wrong = parsed && 'error' in parsed ? parsed.error : null;
  const stays = typed !== null && (wrong !== null || (parsed && 'value' in parsed && equalExact(parsed.value, value)));
  const text = stays ? typed : value === undefined ? '' : formatExact(value);
  const problem = wrong ? problemOf(wrong) : undefined;
  useEffect(() => {
    setBroken(field, problem);
    return () => setBroken(field, undefined);
  }, [field, problem]);
  const change = (next: string) => {
    setTyped(next);
    const r = read(next);
    // With the text, not after it: a save by a key that follows at once must know.
    setBroken(field, 'error' in r ? problemOf(r.error) : undefined);
    if ('value' in r) write(r.value);
  };
  const lines = Math.min(Math.max(text.split('\n').length, rows), 24);
  return (
    <TextAreaField
      label={label}
      mono
      value={text}
      onValue={change}
      rows={lines}
      placeholder={placeholder}
      hint={hint}
      className={css.json}
      issues={problem ? [{ field, problem }] : issues}
      onBlur={() => touch(field)}
    />
  );
}
