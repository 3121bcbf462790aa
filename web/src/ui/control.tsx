import { Link, type LinkProps } from '@tanstack/react-router';
import { useState, type ButtonHTMLAttributes, type ReactNode } from 'react';
import { Icon, type IconName } from './icon';
import css from './control.module.css';

type Tone = 'plain' | 'primary' | 'quiet' | 'danger';

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  tone?: Tone;
  icon?: IconName;
  /** The label is for screen readers and the tooltip only. */
  iconOnly?: boolean;
  busy?: boolean;
  /** Why it cannot be used now. It stays focusable, so that the reason can be read. */
  blocked?: string | undefined;
};

export function Button({ tone = 'plain', icon, iconOnly, busy, blocked, children, className = '', onClick, ...rest }: ButtonProps) {
  const label = iconOnly ? { 'aria-label': String(children), title: blocked ?? String(children) } : blocked ? { title: blocked } : {};
  return (
    <button
      type="button"
      className={`${css.button} ${css[tone]} ${iconOnly ? css.iconOnly : ''} ${className}`}
      aria-disabled={blocked || busy ? true : undefined}
      aria-busy={busy || undefined}
      onClick={blocked || busy ? (e) => e.preventDefault() : onClick}
      {...label}
      {...rest}
    >
      {icon && <Icon name={icon} size={14} />}
      {!iconOnly && children}
    </button>
  );
}

export function LinkButton({ tone = 'plain', icon, children, ...rest }: LinkProps & { tone?: Tone; icon?: IconName; children: ReactNode }) {
  return (
    <Link {...rest} className={`${css.button} ${css[tone]}`}>
      {icon && <Icon name={icon} size={14} />}
      {children}
    </Link>
  );
}

/** A button that looks like a link: an action within a text. */
export function TextButton(props: ButtonHTMLAttributes<HTMLButtonElement>) {
  return <button type="button" {...props} className={`${css.text} ${props.className ?? ''}`} />;
}

export const Tag = ({ children, tone = '' }: { children: ReactNode; tone?: '' | 'bad' | 'warn' | 'ok' | 'accent' }) => (
  <span className={`${css.tag} ${tone ? css['tag_' + tone] : ''}`}>{children}</span>
);

export const Count = ({ children }: { children: ReactNode }) => <span className={css.count}>{children}</span>;

export const Code = ({ children }: { children: ReactNode }) => <code className={css.code}>{children}</code>;

export const Kbd = ({ children }: { children: ReactNode }) => <kbd className={css.kbd}>{children}</kbd>;

export function Chip({ name, value, onRemove }: { name: string; value: string; onRemove?: () => void }) {
  return (
    <span className={css.chip}>
      <span className="dim">{name}</span> <b>{value}</b>
      {onRemove && (
        <button type="button" aria-label={`Remove filter ${name} ${value}`} onClick={onRemove}>
          <Icon name="close" size={12} />
        </button>
      )}
    </span>
  );
}

/** A text with a button that copies it, such as a command line. */
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button
      type="button"
      className={css.copy}
      onClick={() => void copy()}
      aria-label={done ? 'Copied' : label}
      title={done ? 'Copied' : label}
    >
      <Icon name={done ? 'check' : 'copy'} size={14} />
    </button>
  );
}

/** A command line that does the same as the screen. */
export const Command = ({ children }: { children: string }) => (
  <span className={css.command}>
    {/* Lines break between words, not at the hyphens of a flag. */}
    <code>{children.split(' ').flatMap((word, i) => [i > 0 && ' ', <span key={i}>{word}</span>])}</code>
    <Copy text={children} label="Copy the command" />
  </span>
);
