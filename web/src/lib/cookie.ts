// Preferences that the server may read before the first paint, such as the theme. Never a secret.

export function readCookie(name: string): string | undefined {
  for (const part of document.cookie.split('; ')) {
    const [key, value] = part.split('=');
    if (key === name && value) return decodeURIComponent(value);
  }
  return undefined;
}

export function writeCookie(name: string, value: string): void {
  const year = 365 * 24 * 3600;
  const secure = location.protocol === 'https:' ? '; Secure' : '';
  document.cookie = `${name}=${encodeURIComponent(value)}; Path=/ui; Max-Age=${year}; SameSite=Strict${secure}`;
}
