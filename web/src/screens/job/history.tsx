import { SegmentedControl, Tabs } from '@mantine/core';
import { useNavigate, useParams } from '@tanstack/react-router';
import { useCallback, useMemo, useState } from 'react';
import type { Job, Timeline } from '../../api/jobs';
import { useSession } from '../../api/session';
import { useUrl } from '../../lib/search';
import { date, now, zoneOffset } from '../../lib/time';
import { Button } from '../../ui/control';
import { Loaded } from '../../ui/state';
import { useZone, When } from '../../ui/when';
import { AuditTab } from './audit';
import { gapOf, rangeOf, wasDropped, zoomFor, zooms, type Zoom } from './columns';
import { DeadTab } from './dead';
import { DefinitionTab } from './definition';
import { Occurrences } from './occurrences';
import { Performance } from './performance';
import { Legend, TimelineView } from './timeline';
import { useTimeline } from './use-timeline';
import { VersionsTab } from './versions';
import { WhyPanel } from './why';
import css from './job.module.css';

/** The timeline, the occurrence that is chosen, and the tabs. */
export function History({ job, deleted = false }: { job: Job; deleted?: boolean }) {
  const [url, set] = useUrl();
  const params = useParams({ strict: false }) as { time?: string };
  const navigate = useNavigate();
  const { may } = useSession();
  const [opened] = useState(() => now());
  const at = url.at ?? params.time;
  const chosen = at === undefined ? undefined : Date.parse(at);
  const zoom = url.zoom !== undefined && url.zoom in zooms ? (url.zoom as Zoom) : zoomFor(usualGap(job));
  const free = url.from && url.to ? { from: Date.parse(url.from), to: Date.parse(url.to) } : undefined;
  const zone = useZone(job.zone);
  const offset = useMemo(() => (time: number) => zoneOffset(time, zone), [zone]);
  const range =
    free ?? rangeOf(zoom, opened, url.from ? Date.parse(url.from) : undefined, Number.isNaN(chosen) ? undefined : chosen, offset);
  const timeline = useTimeline(job.id, range, zone);
  const tab = url.tab ?? 'occurrences';

  const choose = useCallback(
    (time: string | undefined) => {
      if (params.time === undefined || time === undefined) {
        const search = ((old: Record<string, string>) => ({ ...old, at: time })) as never;
        void navigate({ to: '/jobs/$job', params: { job: job.id }, search, replace: true, resetScroll: false });
      } else
        void navigate({
          to: '/jobs/$job/at/$time',
          params: { job: job.id, time },
          search: true as never,
          replace: true,
          resetScroll: false,
        });
    },
    [navigate, job.id, params.time],
  );
  const go = (by: number) => {
    const length = range.to - range.from;
    const from = new Date(range.from + by * length).toISOString();
    set({ from, to: free ? new Date(range.to + by * length).toISOString() : undefined, zoom: free ? undefined : zoom }, true);
  };
  const zoomTo = (from: number, to: number) =>
    set({ from: new Date(from).toISOString(), to: new Date(to).toISOString(), zoom: undefined }, true);
  return (
    <>
      <section aria-labelledby="occurrences" className={css.timeline}>
        <div className={css.head}>
          <h2 id="occurrences">Occurrences</h2>
          <Range range={range} zone={zone} go={go} moved={!!url.from} reset={() => set({ from: undefined, to: undefined })} />
          {timeline.data && (
            <span className="desktop">
              <Legend timeline={timeline.data} />
            </span>
          )}
          <span className="grow" />
          <Explain offset={offset} zone={zone} choose={choose} />
          <SegmentedControl
            aria-label="Length of the time in view"
            size="xs"
            value={free ? '' : zoom}
            onChange={(z) => set({ zoom: z, from: undefined, to: undefined }, true)}
            data={[
              ['hour', 'Hour'],
              ['day', 'Day'],
              ['week', 'Week'],
              ['month', 'Month'],
              ['year', 'Year'],
            ].map(([value, label]) => ({ value: value!, label }))}
          />
        </div>
        <Loaded query={timeline} rows={4}>
          {(t: Timeline) => (
            <>
              <Completeness timeline={t} job={job} />
              <TimelineView timeline={t} offset={offset} selected={chosen} choose={choose} zoomTo={zoomTo} />
            </>
          )}
        </Loaded>
        {at !== undefined && <WhyPanel job={job} at={at} choose={choose} close={() => choose(undefined)} />}
      </section>
      <Tabs
        value={tab}
        onChange={(t) => set({ tab: t === 'occurrences' ? undefined : (t ?? undefined) })}
        keepMounted={false}
        className={css.tabs}
      >
        <div className={css.tabScroll}>
          <Tabs.List>
            <Tabs.Tab value="occurrences">Occurrences</Tabs.Tab>
            <Tabs.Tab value="performance">Lateness and duration</Tabs.Tab>
            <Tabs.Tab value="definition">Definition</Tabs.Tab>
            <Tabs.Tab value="versions">Versions</Tabs.Tab>
            <Tabs.Tab value="dead">Dead letters</Tabs.Tab>
            {may('admin') && <Tabs.Tab value="audit">Audit</Tabs.Tab>}
          </Tabs.List>
        </div>
        <Tabs.Panel value="occurrences">
          {timeline.data && <Occurrences timeline={timeline.data} selected={chosen} choose={choose} zoomTo={zoomTo} />}
        </Tabs.Panel>
        <Tabs.Panel value="performance">
          <Performance job={job} range={range} timeline={timeline.data} />
        </Tabs.Panel>
        <Tabs.Panel value="definition">
          <DefinitionTab job={job} />
        </Tabs.Panel>
        <Tabs.Panel value="versions">
          <VersionsTab job={job} readOnly={deleted} />
        </Tabs.Panel>
        <Tabs.Panel value="dead">
          <DeadTab job={job} readOnly={deleted} />
        </Tabs.Panel>
        {may('admin') && (
          <Tabs.Panel value="audit">
            <AuditTab job={job} />
          </Tabs.Panel>
        )}
      </Tabs>
    </>
  );
}

/** Asks about any time, such as one without an occurrence. */
function Explain({ zone, offset, choose }: { zone: string; offset: (at: number) => number; choose: (at: string) => void }) {
  const [text, setText] = useState('');
  const local = Date.parse(`${text.trim().replace(' ', 'T')}Z`);
  const wrong = text.trim() !== '' && Number.isNaN(local);
  return (
    <form
      className={css.explain}
      onSubmit={(e) => {
        e.preventDefault();
        if (!Number.isNaN(local)) choose(new Date(local - offset(local - offset(local))).toISOString());
      }}
    >
      <input
        aria-label={`Explain a time, in ${zone}`}
        title={`Why did it run, or not run, at a time? In ${zone}`}
        placeholder="Why at 2026-11-18 02:00?"
        aria-invalid={wrong || undefined}
        value={text}
        onChange={(e) => setText(e.currentTarget.value)}
        spellCheck={false}
        autoComplete="off"
      />
    </form>
  );
}

/** Says what the timeline does not show. */
function Completeness({ timeline: t, job }: { timeline: Timeline; job: Job }) {
  if (t.partial) {
    return (
      <p className="dim">
        Complete{' '}
        {t.covered_from && (
          <>
            from <When at={t.covered_from} zone={t.zone} utc={false} />
          </>
        )}{' '}
        {t.covered_to && (
          <>
            to <When at={t.covered_to} zone={t.zone} utc={false} />
          </>
        )}{' '}
        only. Choose a shorter time to see all of it.
      </p>
    );
  }
  if (wasDropped(t, job.created_at))
    return (
      <p className="dim">
        History is kept from <When at={t.history_from} zone={t.zone} utc={false} /> on.
      </p>
    );
  return null;
}

/** How far occurrences are apart, as far as the newest ones and the next one tell. */
function usualGap(job: Job): number | undefined {
  const times = (job.recent ?? []).map((r) => Date.parse(r.due_at));
  if (job.next_due_at) times.push(Date.parse(job.next_due_at));
  return gapOf(times);
}

function Range({
  range,
  zone,
  go,
  moved,
  reset,
}: {
  range: { from: number; to: number };
  zone: string;
  go: (by: number) => void;
  moved: boolean;
  reset: () => void;
}) {
  const long = range.to - range.from > 2 * 24 * 3600_000;
  return (
    <span className={css.range}>
      <Button tone="quiet" iconOnly icon="left" onClick={() => go(-1)}>
        Earlier
      </Button>
      {long ? (
        <span className="num">
          {date(range.from, zone)} to {date(range.to - 1, zone)}
        </span>
      ) : (
        <span>
          <When at={range.from} zone={zone} utc={false} /> to <When at={range.to} zone={zone} utc={false} />
        </span>
      )}
      <Button tone="quiet" iconOnly icon="right" onClick={() => go(1)}>
        Later
      </Button>
      {moved && (
        <Button tone="quiet" onClick={reset}>
          Now
        </Button>
      )}
    </span>
  );
}
