import { createTheme, type MantineColorSchemeManager } from '@mantine/core';
import { readCookie, writeCookie } from '../lib/cookie';

const accent = [
  '#eef1fd', '#dbe2fb', '#b9c5f7', '#95a7f1', '#7389e9', '#5870e0', '#3b57d6', '#3451cf', '#2f48b9', '#22369a',
] as const;

export const theme = createTheme({
  fontFamily: 'var(--font)',
  fontFamilyMonospace: 'var(--mono)',
  primaryColor: 'accent',
  colors: { accent },
  defaultRadius: 6,
  cursorType: 'pointer',
  fontSizes: { xs: '12px', sm: '13px', md: '13px', lg: '14px', xl: '16px' },
  respectReducedMotion: true,
  components: {
    Tooltip: { defaultProps: { openDelay: 250, withArrow: false, offset: 6 } },
    Modal: { defaultProps: { yOffset: '8vh', radius: 10, transitionProps: { duration: 120 } } },
    Menu: { defaultProps: { transitionProps: { duration: 80 } } },
  },
});

const cookie = 'belfry_theme';

/** The theme is in a cookie, so that the server writes it into the page and no script has to run before the first paint. */
export const schemeManager: MantineColorSchemeManager = {
  get: (fallback) => (readCookie(cookie) as 'light' | 'dark' | undefined) ?? fallback,
  set: (value) => writeCookie(cookie, value),
  subscribe: () => {},
  unsubscribe: () => {},
  clear: () => writeCookie(cookie, ''),
};
