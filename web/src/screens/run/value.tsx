import type { ReactNode } from 'react';
import { formatExact, type Exact } from '../../lib/json';
import { Copy } from '../../ui/control';
import { Section } from '../../ui/page';
import css from './run.module.css';

/** JSON as it is stored: numbers keep all their digits. */
export function JSONView({ title, note, value, id }: { title: string; note?: ReactNode; value: Exact; id: string }) {
  const text = formatExact(value);
  return (
    <Section title={<>{title} {note && <span className={css.aside}>{note}</span>}</>} id={id}
      aside={<Copy text={text} label={`Copy the ${title.toLowerCase()}`} />}>
      <pre className={css.json} tabIndex={0} aria-label={title}>
        {text.split('\n').map((line, i) => <span key={i} data-n={i + 1}>{coloured(line)}{'\n'}</span>)}
      </pre>
    </Section>
  );
}

/** Numbers stand out: they are what a reader compares. Strings are left alone. */
function coloured(line: string): ReactNode {
  const m = /^(\s*(?:"(?:[^"\\]|\\.)*": )?)(-?\d[\d.eE+-]*)(,?)$/.exec(line);
  if (!m) return line;
  return <>{m[1]}<b>{m[2]}</b>{m[3]}</>;
}
