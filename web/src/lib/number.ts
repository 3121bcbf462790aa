export const count = (n: number): string => n.toLocaleString('en-US');

/** A count that may be capped: "10,000+". */
export const capped = (n: number, more?: boolean): string => count(n) + (more ? '+' : '');

/** A short form for axes: 950, 1.2k, 50k, 1.3M. */
export function short(n: number): string {
  if (n < 1000) return String(Math.round(n));
  const [v, unit] = n < 1e6 ? [n / 1e3, 'k'] : [n / 1e6, 'M'];
  return (v < 10 ? v.toFixed(1).replace(/\.0$/, '') : String(Math.round(v))) + unit;
}

export const plural = (n: number, one: string, many = one + 's'): string => `${count(n)} ${n === 1 ? one : many}`;

export const percent = (share: number): string => {
  const p = share * 100;
  return (p > 99 && p < 100 ? Math.floor(p * 100) / 100 : Math.round(p * 10) / 10) + ' %';
};
