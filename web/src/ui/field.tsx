import type { ReactNode } from 'react';
import css from './field.module.css';

type Props = {
  label: ReactNode;
  /** Beside the label. */
  aside?: ReactNode;
  /** Below the input. */
  hint?: ReactNode;
  /** What is wrong with the value. */
  error?: ReactNode;
  /** One input, textarea or select. */
  children: ReactNode;
};

/** A labelled input of a form. */
export function Field({ label, aside, hint, error, children }: Props) {
  return (
    <label className={css.field}>
      <span>{label} {aside && <span className="dim">{aside}</span>}</span>
      {children}
      {error ? <span className={css.error} role="alert">{error}</span> : hint ? <span className={css.hint}>{hint}</span> : null}
    </label>
  );
}

type ChoicesProps<T extends string> = { label: string; value: T; set: (v: T) => void; options: [T, string][] };

/** A few choices in a row, such as how long a pause lasts. */
export function Choices<T extends string>({ label, value, set, options }: ChoicesProps<T>) {
  return (
    <fieldset className={css.choices}>
      <legend>{label}</legend>
      {options.map(([v, text]) => (
        <label key={v} data-on={v === value || undefined}><input type="radio" name={label} checked={v === value}
          onChange={() => set(v)} />{text}</label>
      ))}
    </fieldset>
  );
}
