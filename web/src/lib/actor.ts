/**
 * An actor of the audit log by its name and the beginning of its id, because names are not unique and people choose them:
 * "key:ci [key_06f8m2tq5dtk…]" is ci · key_06f8m2tq5d…, "user:ann [user_…]" is the person, and belfry is Belfry itself.
 */
export function actorName(actor: string | undefined): string {
  if (!actor) return '';
  if (actor === 'belfry') return 'Belfry';
  const [, name, id] = /^\w+:(.*) \[([^\]]*)\]$/s.exec(actor) ?? [];
  if (id === undefined) return actor;
  return `${name} · ${id.replace(/^([a-z]+_.{10}).+/, '$1…')}`;
}
