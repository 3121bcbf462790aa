import { useEffect, type ReactNode } from 'react';
import { Link, type LinkProps } from '@tanstack/react-router';
import { Icon } from './icon';
import css from './page.module.css';

type PageProps = {
  title: ReactNode;
  /** For the tab of the browser, if the title is not a text. */
  name?: string;
  sub?: ReactNode;
  actions?: ReactNode;
  crumbs?: { label: string; link: LinkProps }[];
  children: ReactNode;
};

/** The text in the tab of the browser. */
export function usePageTitle(name: string): void {
  useEffect(() => {
    document.title = `${name} · Belfry`;
  }, [name]);
}

/** A screen: its title, its actions and its content. */
export function Page({ title, name, sub, actions, crumbs, children }: PageProps) {
  usePageTitle(name ?? (typeof title === 'string' ? title : 'Belfry'));
  return (
    <div className={css.page}>
      {crumbs && (
        <nav aria-label="Breadcrumb" className={css.crumbs}>
          {crumbs.map((c, i) => <span key={c.label}>{i > 0 && <Icon name="right" size={12} />}<Link {...c.link}>{c.label}</Link></span>)}
        </nav>
      )}
      <header className={css.header}>
        <div className={css.title}><h1>{title}</h1>{sub && <div className={css.sub}>{sub}</div>}</div>
        {actions && <div className={css.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Section({ title, aside, children, id }: { title: ReactNode; aside?: ReactNode; children: ReactNode; id?: string }) {
  return (
    <section className={css.section} aria-labelledby={id}>
      <div className={css.sectionHead}><h2 id={id}>{title}</h2>{aside}</div>
      {children}
    </section>
  );
}

/** What may be wider than the screen. It scrolls within the page, and the keyboard can scroll it. */
export function Sideways({ label, children }: { label: string; children: ReactNode }) {
  return <div className={css.sideways} tabIndex={0} role="region" aria-label={label}>{children}</div>;
}

/** Names and values in a row: the facts about a thing. */
export function Facts({ items }: { items: ([string, ReactNode] | null | false | undefined)[] }) {
  return (
    <dl className={css.facts}>
      {items.filter((x): x is [string, ReactNode] => !!x).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}
