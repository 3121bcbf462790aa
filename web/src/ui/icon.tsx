import type { ReactNode } from 'react';

const icons = {
  overview: <path d="M1.5 8.500h3l2-5.5 3 10 2-4.500h3" />,
  jobs: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.500V8l2.5 1.5" />
    </>
  ),
  runs: <path d="M4.5 2.800v10.400L13 8z" />,
  dead: (
    <path
      d={
        'M2 9.500V3.800c0-.7.6-1.3 1.3-1.300h9.400c.7 0 1.3.6 1.3 1.300v5.700' +
        'm-12 0h3.200l1 2h3.600l1-2H14v2.700c0 .7-.6 1.3-1.3 1.300H3.300c-.7 0-1.3-.6-1.3-1.300z'
      }
    />
  ),
  load: (
    <>
      <rect x="2" y="2" width="5" height="5" rx="1" />
      <rect x="9" y="2" width="5" height="5" rx="1" fill="currentColor" />
      <rect x="2" y="9" width="5" height="5" rx="1" />
      <rect x="9" y="9" width="5" height="5" rx="1" />
    </>
  ),
  queues: <path d="M2 4.500h12M2 8h12M2 11.500h7" />,
  operations: (
    <>
      <path d="M2.5 4h7M2.5 8h4M2.5 12h4" />
      <path d="m9 10.5 2 2 3.5-4" />
    </>
  ),
  cluster: (
    <>
      <circle cx="8" cy="3.5" r="1.8" />
      <circle cx="3.5" cy="12" r="1.8" />
      <circle cx="12.5" cy="12" r="1.8" />
      <path d="m7.2 5.2-2.9 5.100m4.5-5.1 2.9 5.100M5.4 12h5.2" />
    </>
  ),
  audit: <path d="M4 1.800h6l3 3v9.400H4zM6.3 7.500h4.200M6.3 10.300h4.2" />,
  settings: (
    <>
      <path d="M2 4.500h6M12 4.500h2M2 11.500h2M8 11.500h6" />
      <circle cx="10" cy="4.5" r="1.8" />
      <circle cx="6" cy="11.5" r="1.8" />
    </>
  ),
  search: (
    <>
      <circle cx="7" cy="7" r="4.5" />
      <path d="M10.5 10.5 14 14" />
    </>
  ),
  moon: <path d="M13.5 9.700A6 6 0 0 1 6.3 2.500a6 6 0 1 0 7.2 7.200z" />,
  sun: (
    <>
      <circle cx="8" cy="8" r="3" />
      <path
        d={
          'M8 1.500v1.500M8 13v1.500M1.5 8H3M13 8h1.500' +
          'M3.4 3.400l1.1 1.100M11.5 11.500l1.1 1.100M12.6 3.400l-1.1 1.100M4.5 11.500l-1.1 1.1'
        }
      />
    </>
  ),
  down: <path d="M4.5 6.5 8 10l3.5-3.5" />,
  right: <path d="M6.5 4.5 10 8l-3.5 3.5" />,
  left: <path d="M9.5 4.5 6 8l3.5 3.5" />,
  plus: <path d="M8 3v10M3 8h10" />,
  close: <path d="m4 4 8 8m0-8-8 8" />,
  more: (
    <>
      <circle cx="3.5" cy="8" r=".8" fill="currentColor" />
      <circle cx="8" cy="8" r=".8" fill="currentColor" />
      <circle cx="12.5" cy="8" r=".8" fill="currentColor" />
    </>
  ),
  play: <path d="M5 3.500v9L12.5 8z" />,
  pause: <path d="M5.5 3.500v9m5-9v9" />,
  stop: <rect x="4" y="4" width="8" height="8" rx="1" />,
  copy: (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M3.5 10.500H3a1 1 0 0 1-1-1v-6A1.5 1.5 0 0 1 3.5 2h6a1 1 0 0 1 1 1v.5" />
    </>
  ),
  check: <path d="m3 8.5 3.2 3.200L13 4.8" />,
  redo: <path d="M13 8a5 5 0 1 1-1.5-3.600M13.2 2v3h-3" />,
  trash: <path d="M2.5 4.500h11M6.5 4.500v-2h3v2M4 4.500l.7 9h6.600l.7-9" />,
  edit: <path d="m3 11.2-.5 2.3 2.3-.5 8-8-1.8-1.800z" />,
  link: <path d="M9.5 2.500h4v4M13.5 2.5 8 8M11.5 9.500v3.300c0 .4-.3.7-.7.7H3.700a.7.7 0 0 1-.7-.7V5.700c0-.4.3-.7.7-.7H7" />,
  bell: (
    <>
      <path
        d="M8 2.200c-2.5 0-3.9 1.9-3.9 4.200s-.6 3.2-1.3 4h10.400c-.7-.8-1.3-1.7-1.3-4S10.5 2.2 8 2.200z"
        fill="currentColor"
        stroke="none"
      />
      <path d="M6.5 12a1.6 1.6 0 0 0 3 0z" fill="currentColor" stroke="none" />
    </>
  ),
  spread: <path d="M2 12h1.500M5.3 12V9.500M8 12V4m2.7 8V9.500M12.5 12H14" />,
  calendar: (
    <>
      <rect x="2.5" y="3.5" width="11" height="10" rx="1.5" />
      <path d="M2.5 6.800h11M5.5 1.800v3m5-3v3" />
    </>
  ),
  import: <path d="M8 2v7.500M4.8 6.5 8 9.700l3.2-3.200M2.5 11.500v2h11v-2" />,
  key: (
    <>
      <circle cx="5" cy="11" r="2.5" />
      <path d="m7 9 6-6m-2 2 1.8 1.800M9 7l1.3 1.3" />
    </>
  ),
  logout: <path d="M6.5 2.500h-4v11h4M10 5l3 3-3 3M13 8H6" />,
  help: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M6.3 6.300c.2-1 1-1.5 1.8-1.5 1 0 1.8.6 1.8 1.6 0 1.2-1.8 1.3-1.8 2.600M8.1 11.200v.1" />
    </>
  ),
  warning: <path d="M8 2.2 14.3 13H1.700zM8 6.500v3M8 11.200v.1" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof icons;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {icons[name]}
    </svg>
  );
}
