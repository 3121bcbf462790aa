import { useEffect, useRef } from 'react';
import { readCookie, writeCookie } from '../lib/cookie';

// Single keys act only outside of inputs, and can be switched off (WCAG 2.1.4).

const cookie = 'belfry_keys';

let enabled = readCookie(cookie) !== 'off';

export const keysEnabled = () => enabled;

export function setKeysEnabled(on: boolean): void {
  enabled = on;
  writeCookie(cookie, on ? 'on' : 'off');
}

const typing = (e: KeyboardEvent) => {
  const t = e.target as HTMLElement | null;
  return !!t?.closest(
    'input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], [role=dialog], [role=listbox], [role=menu]',
  );
};

type Handler = () => void;

const handlers = new Map<string, Handler[]>();
let prefix = '';
let prefixTimer = 0;

const prefixes = new Set(['g']);

function press(e: KeyboardEvent): void {
  if (!enabled || e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || typing(e)) return;
  if (!prefix && prefixes.has(e.key)) {
    prefix = e.key;
    clearTimeout(prefixTimer);
    prefixTimer = window.setTimeout(() => {
      prefix = '';
    }, 1500);
    return;
  }
  const key = prefix ? `${prefix} ${e.key}` : e.key;
  prefix = '';
  const list = handlers.get(key);
  const last = list?.[list.length - 1];
  if (!last) return;
  e.preventDefault();
  last();
}

if (typeof window !== 'undefined') window.addEventListener('keydown', press);

/** Runs a function on a key such as "j" or "g o". The component mounted last wins. */
export function useShortcut(key: string, run: Handler, on = true): void {
  const latest = useRef(run);
  useEffect(() => {
    latest.current = run;
  });
  useEffect(() => {
    if (!on) return;
    const h: Handler = () => latest.current();
    handlers.set(key, [...(handlers.get(key) ?? []), h]);
    return () => {
      handlers.set(
        key,
        (handlers.get(key) ?? []).filter((x) => x !== h),
      );
    };
  }, [key, on]);
}

/** What the help lists. */
export const shortcuts: [string, string][] = [
  ['/', 'Go to the filter of the list'],
  ['Enter  ↓', 'From the filter to the rows'],
  ['Ctrl K', 'Find a job, a run or a screen'],
  ['g o', 'Go to Overview'],
  ['g j', 'Go to Jobs'],
  ['g r', 'Go to Runs'],
  ['g d', 'Go to Dead letters'],
  ['g l', 'Go to Load'],
  ['g q', 'Go to Queues'],
  ['g p', 'Go to Operations'],
  ['g c', 'Go to Cluster'],
  ['g a', 'Go to Audit'],
  ['g s', 'Go to Settings'],
  ['j  k', 'Next and previous row'],
  ['x', 'Select the row'],
  ['Enter', 'Open the row'],
  ['t', 'Trigger the job'],
  ['p', 'Pause or resume the job'],
  ['e', 'Edit the job'],
  ['z', 'Pause and resume live updates'],
  ['?', 'This help'],
];
