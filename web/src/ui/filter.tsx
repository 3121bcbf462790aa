import { Popover } from '@mantine/core';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { useData } from '../api/live';
import { joinList, splitList } from '../lib/labels';
import { useUrl, type Search } from '../lib/search';
import { Chip, Kbd, TextButton } from './control';
import { Icon } from './icon';
import css from './filter.module.css';

export type Option = {
  value: string;
  label?: string;
  hint?: ReactNode;
  /** The value is only the beginning: choosing it puts it into the input, and its options are read. */
  begins?: boolean;
};

export type Field = {
  /** The search parameter. */
  key: string;
  label: string;
  options?: Option[];
  /** Options that are read when the field is opened. */
  load?: (text: string) => Promise<Option[]>;
  /** Any text may be entered, besides the options. */
  free?: string;
  /** Several values may be chosen, and all of them must match. */
  multi?: boolean;
  /** The text of a value in its chip. */
  show?: (value: string) => string;
};

type Props = {
  /** The search parameter of the text field. */
  search?: { key: string; placeholder: string };
  fields: Field[];
  /** At the right: the order of the list. */
  aside?: ReactNode;
};

/** The filters of a list. They live in the URL. */
export function FilterBar({ search, fields, aside }: Props) {
  const [url, set] = useUrl();
  const active = fields.flatMap((f) => {
    const values = f.multi ? splitList(url[f.key]) : url[f.key] ? [url[f.key]!] : [];
    return values.map((value) => ({ field: f, value, values }));
  });
  const remove = (f: Field, value: string,
    values: string[]) => set({ [f.key]: f.multi ? joinList(values.filter((v) => v !== value)) : undefined });
  const clear = () => set(Object.fromEntries([...fields.map((f) => f.key),
    ...(search ? [search.key] : [])].map((k) => [k, undefined])) as Search);
  const any = active.length > 0 || (search && url[search.key]);
  return (
    <div className={css.bar} role="search" aria-label="Filters">
      {search && <SearchInput param={search.key} placeholder={search.placeholder} />}
      {active.map(({ field, value, values }) => (
        <Chip key={field.key + value} name={field.label}
          value={field.show?.(value) ?? field.options?.find((o) => o.value === value)?.label ?? value}
          onRemove={() => remove(field, value, values)} />
      ))}
      <AddFilter fields={fields} />
      {any && <TextButton onClick={clear}>Clear</TextButton>}
      {aside && <><span className="grow" />{aside}</>}
    </div>
  );
}

/** Whether a filter of the list is set. */
export const filtered = (url: Search, keys: string[]): boolean => keys.some((k) => url[k]);

function SearchInput({ param, placeholder }: { param: string; placeholder: string }) {
  const [url, set] = useUrl();
  const value = url[param] ?? '';
  const [text, setText] = useState(value);
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) {
      sent.current = value;
      setText(value);
    }
  }, [value]);
  useEffect(() => {
    if (text.trim() === sent.current) return;
    const t = setTimeout(() => {
      sent.current = text.trim();
      set({ [param]: text.trim() || undefined });
    }, 250);
    return () => clearTimeout(t);
  });
  return (
    <label className={css.search}>
      <Icon name="search" size={14} />
      <input data-filter placeholder={placeholder} aria-label={placeholder} value={text} spellCheck={false} autoComplete="off"
        onChange={(e) => setText(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === 'Enter' || e.key === 'ArrowDown') {
            e.preventDefault();
            document.querySelector<HTMLElement>('#content tr[data-index]')?.focus();
          } else if (e.key === 'Escape') {
            if (text) setText('');
            else e.currentTarget.blur();
          }
        }} />
      {!text && <Kbd>/</Kbd>}
    </label>
  );
}

function AddFilter({ fields }: { fields: Field[] }) {
  const [open, setOpen] = useState(false);
  const [field, setField] = useState<Field | null>(null);
  const close = () => {
    setOpen(false);
    setField(null);
  };
  return (
    <Popover opened={open} onChange={(o) => !o && close()} position="bottom-start" width={260} trapFocus returnFocus shadow="none">
      <Popover.Target>
        <button type="button" className={css.add} aria-expanded={open} onClick={() => (open ? close() : setOpen(true))}><Icon name="plus"
          size={12} />Filter</button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Add a filter">
        {field ? <Values field={field} close={close} /> : (
          <ul className={css.list}>
            {fields.map((f, i) => (
              <li key={f.key}>
                <button type="button" data-autofocus={i === 0 || undefined} onClick={() => setField(f)} onKeyDown={arrows}>
                  {f.label}<Icon name="right" size={12} />
                </button>
              </li>
            ))}
          </ul>
        )}
      </Popover.Dropdown>
    </Popover>
  );
}

function Values({ field, close }: { field: Field; close: () => void }) {
  const [url, set] = useUrl();
  const [text, setText] = useState('');
  const wanted = text.trim();
  const loaded = useData({ key: ['filter', field.key, wanted], get: () => field.load!(wanted), enabled: !!field.load, keep: true });
  const choose = (value: string) => {
    set({ [field.key]: field.multi ? joinList([...new Set([...splitList(url[field.key]), value])]) : value });
    close();
  };
  const options = [...(field.options ?? []),
    ...(loaded.data ?? [])].filter((o) => (o.label ?? o.value).toLowerCase().includes(wanted.toLowerCase()));
  const begin = (value: string) => {
    setText(value);
    box.current?.querySelector<HTMLElement>('input')?.focus();
  };
  const searchable = !!field.free || !!field.load;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.querySelector<HTMLElement>('input, button')?.focus(), []);
  return (
    <div ref={box}>
      {searchable && (
        <form onSubmit={(e) => {
          e.preventDefault();
          const value = field.free ? wanted : options[0]?.value;
          if (value) choose(value);
        }}>
          <input className={css.input} aria-label={field.label} placeholder={field.free ?? field.label} value={text} spellCheck={false}
            autoComplete="off"
            onChange={(e) => setText(e.currentTarget.value)}
            onKeyDown={(e) => {
              if (e.key === 'ArrowDown') e.currentTarget.closest('div')?.querySelector<HTMLElement>('li button')?.focus();
            }} />
        </form>
      )}
      <ul className={css.list}>
        {options.slice(0, 50).map((o) => (
          <li key={o.value}>
            <button type="button" onClick={() => (o.begins ? begin(o.value) : choose(o.value))} onKeyDown={arrows}>
              <span className="clip">{o.label ?? o.value}</span>{o.hint && <span className="dim">{o.hint}</span>}
            </button>
          </li>
        ))}
        {field.free && wanted && !options.some((o) => o.value === wanted) && (
          <li>
            <button type="button" onClick={() => choose(wanted)} onKeyDown={arrows}><span className="clip">“{wanted}”</span></button>
          </li>
        )}
      </ul>
      {options.length === 0 && !wanted && !loaded.isFetching && <p className={css.none}>{field.free ?? 'There is none yet.'}</p>}
    </div>
  );
}

function arrows(e: React.KeyboardEvent<HTMLElement>): void {
  if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return;
  e.preventDefault();
  const all = [...(e.currentTarget.closest('ul')?.querySelectorAll<HTMLElement>('button') ?? [])];
  const next = all.indexOf(e.currentTarget) + (e.key === 'ArrowDown' ? 1 : -1);
  all[(next + all.length) % all.length]?.focus();
}
