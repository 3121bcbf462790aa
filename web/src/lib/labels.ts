// Several values in one search parameter, separated by commas. A comma within a value is written as \, and \ as \\.

export const joinList = (values: string[]): string | undefined =>
  values.length === 0 ? undefined : values.map((v) => v.replace(/[\\,]/g, '\\$&')).join(',');

export function splitList(text: string | undefined): string[] {
  if (!text) return [];
  const out: string[] = [];
  let value = '';
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (c === '\\' && i + 1 < text.length) value += text[++i]!;
    else if (c === ',') {
      out.push(value);
      value = '';
    } else value += c;
  }
  out.push(value);
  return out.filter((v) => v !== '');
}
