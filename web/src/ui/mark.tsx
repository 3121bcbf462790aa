import css from './mark.module.css';

/** One shape per outcome. The shapes differ without colour at 10 px. */
export type Kind =
  | 'succeeded'
  | 'retried'
  | 'failed'
  | 'running'
  | 'accepted'
  | 'retrying'
  | 'planned'
  | 'due'
  | 'skipped'
  | 'missed'
  | 'cancelled'
  | 'late'
  | 'clock'
  | 'calendar'
  | 'paused'
  | 'archived'
  | 'unknown';

export const word: Record<Kind, string> = {
  succeeded: 'Succeeded',
  retried: 'Succeeded after a retry',
  failed: 'Failed',
  running: 'Running',
  accepted: 'Accepted, waits for a report',
  retrying: 'Waits for a retry',
  planned: 'Planned',
  due: 'Due',
  skipped: 'Skipped by a rule',
  missed: 'Missed',
  cancelled: 'Cancelled',
  late: 'Late',
  clock: 'Clock change',
  calendar: 'Calendar',
  paused: 'Paused',
  archived: 'Archived',
  unknown: 'Not known',
};

const colour: Record<Kind, string> = {
  succeeded: '--ok-mark',
  retried: '--ok-mark',
  failed: '--bad-mark',
  running: '--accent',
  accepted: '--accent',
  retrying: '--warn-mark',
  planned: '--future-mark',
  due: '--future-mark',
  skipped: '--off-mark',
  missed: '--warn-mark',
  cancelled: '--off-mark',
  late: '--warn-mark',
  clock: '--warn-mark',
  calendar: '--off-mark',
  paused: '--off-mark',
  archived: '--off-mark',
  unknown: '--off-mark',
};

/** The mark of a run. Missed occurrences are skips that no rule of the user asked for. */
export function kindOf(run: { state: string; reason?: string | undefined; attempt?: number | undefined }): Kind {
  switch (run.state) {
    case 'succeeded':
      return (run.attempt ?? 1) > 1 ? 'retried' : 'succeeded';
    case 'failed':
      return 'failed';
    case 'running':
    case 'claimed':
    case 'delivering':
      return 'running';
    case 'accepted':
      return 'accepted';
    case 'retrying':
      return 'retrying';
    case 'cancelled':
      return 'cancelled';
    case 'skipped':
      return /^(missed|unplanned)/.test(run.reason ?? '') ? 'missed' : 'skipped';
    case 'due':
      return 'due';
    case 'paused':
      return 'paused';
    case 'archived':
      return 'archived';
    case 'forgotten':
    case 'unknown':
      return 'unknown';
    default:
      return 'planned';
  }
}

function shape(kind: Kind, c: string) {
  switch (kind) {
    case 'succeeded':
      return <circle cx="6" cy="6" r="4.25" fill={c} stroke="none" />;
    case 'retried':
      return (
        <>
          <circle cx="6" cy="6" r="2.5" fill={c} stroke="none" />
          <circle cx="6" cy="6" r="5" strokeWidth="1.1" />
        </>
      );
    case 'failed':
      return <path d="m2.4 2.4 7.2 7.2m0-7.2L2.4 9.6" strokeWidth="2.2" strokeLinecap="round" />;
    case 'running':
      return (
        <>
          <circle cx="6" cy="6" r="4.6" />
          <path d="M6 1.400v9.200a4.6 4.6 0 0 1 0-9.200z" fill={c} stroke="none" />
        </>
      );
    case 'accepted':
      return (
        <>
          <circle cx="6" cy="6" r="4.6" />
          <circle cx="6" cy="6" r="1.7" fill={c} stroke="none" />
        </>
      );
    case 'retrying':
      return <path d="M10.2 6a4.2 4.2 0 1 1-1.3-3M9.3.8v2.400H6.9" strokeLinecap="round" strokeLinejoin="round" />;
    case 'planned':
      return <circle cx="6" cy="6" r="3.9" strokeWidth="1.2" />;
    case 'due':
      return (
        <>
          <circle cx="6" cy="6" r="3.9" strokeWidth="1.2" />
          <path d="M6 3.800V6l1.5 1" strokeWidth="1.1" />
        </>
      );
    case 'skipped':
      return <circle cx="6" cy="6" r="4.4" strokeDasharray="2.1 2.5" strokeWidth="1.4" />;
    case 'missed':
      return <path d="M6 1.1 10.9 6 6 10.9 1.1 6z" strokeWidth="1.7" strokeLinejoin="round" />;
    case 'cancelled':
      return (
        <>
          <circle cx="6" cy="6" r="4.5" />
          <path d="m3 9 6-6" />
        </>
      );
    case 'late':
      return <path d="M2.4 1.200h7.200L6.7 6l2.9 4.800H2.400L5.3 6z" fill={c} stroke="none" />;
    case 'clock':
      return <path d="m6 1.6 5 8.800H1z" fill={c} stroke="none" />;
    case 'calendar':
      return <path d="M1.8 3.200h8.400v7H1.800zM1.8 5.600h8.400M4 1.600v2.200M8 1.600v2.2" strokeWidth="1.1" />;
    case 'paused':
      return <path d="M4 2.500v7M8 2.500v7" strokeWidth="2" />;
    case 'archived':
      return <path d="M1.4 2.200h9.200v2.400H1.400zM2.3 4.600v5.200h7.400V4.600M4.6 6.600h2.8" strokeWidth="1.1" />;
    case 'unknown':
      return (
        <path d="M3.8 4.200c.2-1.4 1.1-2.1 2.2-2.1 1.3 0 2.2.8 2.2 2 0 1.600-2.200 1.700-2.200 3.400M6 9.700v.4" strokeLinecap="round" />
      );
  }
}

export function Mark({ kind, size = 12, label }: { kind: Kind; size?: number; label?: string | undefined }) {
  const c = `var(${colour[kind]})`;
  const said = label === '' ? { 'aria-hidden': true } : { role: 'img', 'aria-label': label ?? word[kind] };
  return (
    <svg width={size} height={size} viewBox="0 0 12 12" fill="none" stroke={c} strokeWidth="1.5" {...said}>
      {shape(kind, c)}
    </svg>
  );
}

/** A mark with its word. */
export function Outcome({ kind, children }: { kind: Kind; children?: React.ReactNode }) {
  const tone = kind === 'failed' ? 'bad' : kind === 'missed' || kind === 'late' || kind === 'retrying' ? 'warn' : '';
  return (
    <span className={`${css.outcome} ${tone}`}>
      <Mark kind={kind} label="" />
      {children ?? word[kind]}
    </span>
  );
}

/** Counts outcomes in words: "11 succeeded, 1 failed". */
export function summary(kinds: Kind[]): string {
  const counts = new Map<string, number>();
  for (const k of kinds) counts.set(word[k].toLowerCase(), (counts.get(word[k].toLowerCase()) ?? 0) + 1);
  return [...counts].map(([w, n]) => `${n} ${w}`).join(', ');
}

/** The last outcomes, newest at the right, with one text for screen readers. */
export function Spark({ kinds, size = 10 }: { kinds: Kind[]; size?: number }) {
  if (kinds.length === 0) return <span className="dim">–</span>;
  return (
    <span className={css.spark} role="img" aria-label={`Last ${kinds.length}: ${summary(kinds)}`}>
      {kinds.map((k, i) => (
        <Mark key={i} kind={k} size={size} label="" />
      ))}
    </span>
  );
}

const reasons: Record<string, string> = {
  attempts: 'all attempts failed', rejected: 'another attempt would fail too', lost: 'its node or worker was lost',
  gone: 'the target is gone',
  unknown_outcome: 'the outcome is not known', overlap: 'another run was live', overlap_limit: 'too many runs waited',
  missed: 'no node could handle it', missed_window: 'missed, and too old to catch up', missed_max: 'missed, and more than are caught up',
  paused: 'the job was paused', expired: 'its deadline passed', replaced: 'a newer run replaced it', calendar: 'excluded by a calendar',
  dst_gap: 'this time did not exist', cancelled: 'a user cancelled it', deleted: 'its job was deleted',
};

/** The reason of an outcome in words. One that is not known here, such as of a newer node, is shown as it is. */
export const reasonText = (code: string): string => reasons[code] ?? code.replaceAll('_', ' ');
