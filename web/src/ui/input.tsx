import {
  useId,
  useState,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
} from 'react';
import { Icon } from './icon';
import css from './input.module.css';

/** A problem of a field, as the API writes it. */
export type Issue = { field: string; problem: string; fix?: string | undefined };

export type FieldProps = {
  label: ReactNode;
  /** The label is for screen readers only. */
  hideLabel?: boolean;
  hint?: ReactNode;
  issues?: Issue[] | undefined;
  className?: string | undefined;
};

type Ids = { id: string; 'aria-describedby': string | undefined; 'aria-invalid': true | undefined };

/** Problems of a field. The name of the field is written only where it is not that of the input itself. */
export function Issues({ issues, id, at }: { issues: Issue[]; id?: string; at?: string }) {
  return (
    <ul className={css.issues} id={id} data-issues>
      {issues.slice(0, 5).map((x, i) => (
        <li key={i}>
          <Icon name="warning" size={12} />
          <span>
            {at !== undefined && x.field !== at && (
              <>
                <code>{x.field}</code>{' '}
              </>
            )}
            {sentence(x)}
          </span>
        </li>
      ))}
    </ul>
  );
}

const sentence = (x: Issue) => (x.fix ? `${x.problem}; ${x.fix}` : x.problem);

/** A label, an input, and what is wrong with it. */
export function Field({
  label,
  hideLabel,
  hint,
  issues = [],
  className = '',
  children,
}: FieldProps & { children: (ids: Ids) => ReactNode }) {
  const id = useId();
  const wrong = issues.length > 0;
  const described = [hint ? `${id}-hint` : '', wrong ? `${id}-issues` : ''].filter(Boolean).join(' ');
  return (
    <div className={`${css.field} ${className}`}>
      <label htmlFor={id} className={hideLabel ? 'sr' : css.label}>
        {label}
      </label>
      {children({ id, 'aria-describedby': described || undefined, 'aria-invalid': wrong || undefined })}
      {wrong && <Issues issues={issues} id={`${id}-issues`} />}
      {hint && (
        <div className={css.hint} id={`${id}-hint`}>
          {hint}
        </div>
      )}
    </div>
  );
}

type Value = { value: string; onValue: (value: string) => void };

export function TextField({
  label,
  hideLabel,
  hint,
  issues,
  className,
  value,
  onValue,
  mono,
  big,
  ...rest
}: FieldProps &
  Value & { mono?: boolean; big?: string | undefined } & Omit<
    InputHTMLAttributes<HTMLInputElement>,
    'value' | 'onChange' | 'className'
  >) {
  return (
    <Field label={label} hideLabel={hideLabel ?? false} hint={hint} issues={issues} className={className}>
      {(ids) => (
        <input
          type="text"
          spellCheck={false}
          autoComplete="off"
          {...rest}
          {...ids}
          className={`${css.input} ${mono ? css.mono : ''} ${big ?? ''}`}
          value={value}
          onChange={(e) => onValue(e.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export type Option = { value: string; label: string };

export function SelectField({
  label,
  hideLabel,
  hint,
  issues,
  className,
  value,
  onValue,
  options,
  quiet,
  ...rest
}: FieldProps &
  Value & { options: Option[]; quiet?: boolean } & Omit<
    SelectHTMLAttributes<HTMLSelectElement>,
    'value' | 'onChange' | 'className'
  >) {
  return (
    <Field label={label} hideLabel={hideLabel ?? false} hint={hint} issues={issues} className={className}>
      {(ids) => (
        <select
          {...rest}
          {...ids}
          className={`${css.input} ${quiet ? 'dim' : ''}`}
          value={value}
          onChange={(e) => onValue(e.currentTarget.value)}
        >
          {options.map((o) => (
            <option key={o.value} value={o.value}>
              {o.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function TextAreaField({
  label,
  hideLabel,
  hint,
  issues,
  className,
  value,
  onValue,
  mono,
  ...rest
}: FieldProps &
  Value & { mono?: boolean } & Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, 'value' | 'onChange' | 'className'>) {
  return (
    <Field label={label} hideLabel={hideLabel ?? false} hint={hint} issues={issues} className={className}>
      {(ids) => (
        <textarea
          spellCheck={false}
          autoComplete="off"
          {...rest}
          {...ids}
          className={`${css.input} ${mono ? css.mono : ''}`}
          value={value}
          onChange={(e) => onValue(e.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/**
 * The text of an input whose value has another form, such as a list. What the user types stays as it is, until the
 * value changes from elsewhere.
 */
export function useText<T>(
  value: T,
  o: { format: (value: T) => string; parse: (text: string) => T; same: (a: T, b: T) => boolean },
): [string, (text: string) => void] {
  const [typed, setTyped] = useState<{ text: string; value: T } | null>(null);
  const text = typed && o.same(typed.value, value) ? typed.text : o.format(value);
  return [text, (t) => setTyped({ text: t, value: o.parse(t) })];
}
