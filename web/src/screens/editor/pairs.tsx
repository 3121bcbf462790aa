import { useState } from 'react';
import { objectOf } from '../../lib/definition';
import { compactExact, equalExact, isObject, type Exact, type ExactObject } from '../../lib/json';
import { Button } from '../../ui/control';
import css from './editor.module.css';
import field from '../../ui/input.module.css';

type Row = { key: string; value: string; secret: boolean };

const rowsOf = (o: ExactObject): Row[] =>
  Object.keys(o).map((key) => {
    const v = o[key]!;
    const named = isObject(v) && typeof v.secret === 'string' ? v.secret : undefined;
    return { key, value: named ?? (typeof v === 'string' ? v : compactExact(v)), secret: named !== undefined };
  });

const objectFrom = (rows: Row[]): ExactObject =>
  objectOf(
    rows.filter((r) => r.key !== '').map((r): [string, Exact] => [r.key, r.secret ? objectOf([['secret', r.value]]) : r.value]),
  );

type Props = {
  legend: string;
  names: { key: string; value: string; add: string };
  value: Exact | undefined;
  write: (v: ExactObject | undefined) => void;
  /** Whether a value may be the name of a secret. */
  secrets?: boolean;
  keyPlaceholder?: string;
  valuePlaceholder?: string;
  onBlur?: () => void;
};

/** Keys and values, such as labels and headers. A row whose key is empty is not part of the value yet. */
export function Pairs({ legend, names, value, write, secrets, keyPlaceholder, valuePlaceholder, onBlur }: Props) {
  const now = isObject(value) ? value : objectOf([]);
  const [typed, setTyped] = useState<Row[] | null>(null);
  const rows = typed && equalExact(objectFrom(typed), now) ? typed : rowsOf(now);
  const change = (next: Row[]) => {
    setTyped(next);
    const o = objectFrom(next);
    write(Object.keys(o).length > 0 ? o : undefined);
  };
  const put = (i: number, part: Partial<Row>) => change(rows.with(i, { ...rows[i]!, ...part }));
  return (
    <fieldset className={css.pairs} onBlur={onBlur}>
      <legend>{legend}</legend>
      {rows.map((r, i) => (
        <div key={i} className={css.pairRow} data-secrets={secrets || undefined}>
          <input
            className={`${field.input} ${field.mono}`}
            aria-label={`${names.key} ${i + 1}`}
            placeholder={keyPlaceholder}
            value={r.key}
            spellCheck={false}
            onChange={(e) => put(i, { key: e.currentTarget.value })}
          />
          <input
            className={`${field.input} ${field.mono}`}
            aria-label={r.secret ? `Name of the secret of ${r.key || i + 1}` : `${names.value} ${i + 1}`}
            placeholder={r.secret ? 'name of a secret' : valuePlaceholder}
            value={r.value}
            spellCheck={false}
            onChange={(e) => put(i, { value: e.currentTarget.value })}
          />
          {secrets && (
            <label className={css.tick}>
              <input type="checkbox" checked={r.secret} onChange={(e) => put(i, { secret: e.currentTarget.checked })} />
              Secret
            </label>
          )}
          <Button
            tone="quiet"
            iconOnly
            icon="close"
            onClick={() => change(rows.toSpliced(i, 1))}
          >{`Remove ${r.key || `row ${i + 1}`}`}</Button>
        </div>
      ))}
      <div>
        <Button tone="quiet" icon="plus" onClick={() => setTyped([...rows, { key: '', value: '', secret: false }])}>
          {names.add}
        </Button>
      </div>
    </fieldset>
  );
}
