/**
 * The name of an actor of the audit log: "key:ci [key_06f8…]" is ci, "user:ann@example.com [user_06f8…]" is the person,
 * and belfry is Belfry itself.
 */
export function actorName(actor: string | undefined): string {
  if (!actor) return '';
  if (actor === 'belfry') return 'Belfry';
  return actor.replace(/ \[[^\]]*\]$/, '').replace(/^(key|user):/, '');
}
