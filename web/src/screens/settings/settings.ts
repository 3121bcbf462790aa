type Settings = { keep_history?: string; look_ahead?: string; worker_ttl?: string };

/** "720h0m0s" as people write it: "30 d". */
export function friendly(go: string): string {
  const m = /^(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?$/.exec(go);
  if (!m || go === '') return go;
  const [h, min, s] = [Number(m[1] ?? 0), Number(m[2] ?? 0), Number(m[3] ?? 0)];
  const parts: string[] = [];
  if (h >= 48 && h % 24 === 0) parts.push(`${h / 24} d`);
  else if (h) parts.push(`${h} h`);
  if (min) parts.push(`${min} min`);
  if (s) parts.push(`${s} s`);
  return parts.join(' ') || '0 s';
}

/** The setting of all nodes, or each that differs. */
export function settingOf(nodes: Settings[], name: keyof Settings): string {
  const all = [...new Set(nodes.map((n) => n[name] ?? '').filter(Boolean))];
  if (all.length === 0) return 'unknown';
  return all.map(friendly).join(' or ') + (all.length > 1 ? ', nodes differ' : '');
}
