/** How many ids a bulk request takes. */
export const idsLimit = 500;
/** Above this count the user types it. */
export const typedAbove = 1000;
const maxRate = 1000;

type State = { count: number | undefined; more: boolean; rate: string; typed: string; many: string };

/** Why a bulk action cannot start yet; undefined: it can. */
export function blockedBy({ count, rate, typed, many }: State): string | undefined {
  if (count === undefined) return 'Counting…';
  if (count === 0) return `No ${many} match`;
  const r = Number(rate);
  if (!Number.isInteger(r) || r < 1 || r > maxRate) return `The rate is a whole number from 1 to ${maxRate.toLocaleString('en-US')}`;
  if (count > typedAbove && typed.replace(/[,\s]/g, '') !== String(count)) return `Type ${count} to confirm`;
  return undefined;
}
