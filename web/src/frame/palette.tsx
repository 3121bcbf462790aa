import { Modal } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useId, useState, type KeyboardEvent } from 'react';
import { api, unwrap } from '../api/client';
import { useData } from '../api/live';
import { useSession, type Role } from '../api/session';
import { useReturnFocus } from '../ui/dialog';
import { Icon, type IconName } from '../ui/icon';
import css from './palette.module.css';

type Entry = { id: string; icon: IconName; label: string; hint?: string; go: () => void };

const screens: { to: string; label: string; icon: IconName; role?: Role }[] = [
  { to: '/', label: 'Overview', icon: 'overview' },
  { to: '/jobs', label: 'Jobs', icon: 'jobs' },
  { to: '/jobs/new', label: 'New job', icon: 'plus', role: 'editor' },
  { to: '/import', label: 'Import jobs from a file', icon: 'import', role: 'editor' },
  { to: '/runs', label: 'Runs', icon: 'runs' },
  { to: '/dead-letters', label: 'Dead letters', icon: 'dead' },
  { to: '/load', label: 'Load of the next 24 hours', icon: 'load' },
  { to: '/queues', label: 'Queues and workers', icon: 'queues' },
  { to: '/operations', label: 'Operations', icon: 'operations' },
  { to: '/cluster', label: 'Cluster', icon: 'cluster' },
  { to: '/audit', label: 'Audit log', icon: 'audit', role: 'admin' },
  { to: '/settings', label: 'Settings', icon: 'settings' },
];

/** The jobs whose names have the text: first the name itself, then those that begin with it. Others are of an earlier search. */
export function ranked<T extends { name: string }>(jobs: T[], text: string): T[] {
  const wanted = text.toLowerCase();
  const rank = (j: T) => [j.name.toLowerCase() !== wanted, !j.name.toLowerCase().startsWith(wanted)].filter(Boolean).length;
  return jobs.filter((j) => j.name.toLowerCase().includes(wanted)).toSorted((a, b) => rank(a) - rank(b)).slice(0, 8);
}

/** Finds a job by a part of its name, a run or job by its id, or a screen. */
export function Palette({ close }: { close: () => void }) {
  useReturnFocus();
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const [entered, setEntered] = useState<string | null>(null);
  const navigate = useNavigate();
  const { may } = useSession();
  const list = useId();
  const wanted = text.trim();
  const byName = wanted.length > 0 && !/^(run|job)_/.test(wanted);
  const jobs = useData({
    key: ['palette', wanted],
    get: (signal) => unwrap(api.GET('/api/v1/jobs', { params: { query: { name: wanted, page_size: 50 } }, signal })),
    enabled: byName,
    keep: true,
  });
  const pending = byName && (jobs.isPlaceholderData || jobs.isPending);
  const go = (to: string) => () => {
    close();
    void navigate({ to });
  };
  const entries: Entry[] = [];
  if (wanted.startsWith('run_')) entries.push({ id: wanted, icon: 'runs', label: wanted, hint: 'run', go: go(`/runs/${wanted}`) });
  if (wanted.startsWith('job_')) entries.push({ id: wanted, icon: 'jobs', label: wanted, hint: 'job', go: go(`/jobs/${wanted}`) });
  if (byName) {
    for (const j of ranked(jobs.data?.items ?? [], wanted))
      entries.push({ id: j.id, icon: 'jobs', label: j.name, hint: 'job', go: go(`/jobs/${j.id}`) });
  }
  for (const s of screens) {
    if (s.role && !may(s.role)) continue;
    if (s.label.toLowerCase().includes(wanted.toLowerCase()))
      entries.push({ id: s.to, icon: s.icon, label: s.label, hint: 'go to', go: go(s.to) });
  }
  const shown = entries.slice(0, 14);
  const current = Math.min(at, shown.length - 1);
  const key = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      setAt((current + (e.key === 'ArrowDown' ? 1 : shown.length - 1)) % Math.max(shown.length, 1));
    } else if (e.key === 'Enter') {
      e.preventDefault();
      if (pending && at === 0) setEntered(wanted);
      else shown[current]?.go();
    }
  };
  // Enter was pressed before the answer came: the first entry is not known until then.
  const first = shown[0];
  useEffect(() => {
    if (entered !== wanted || pending) return;
    setEntered(null);
    if (entered) first?.go();
  }, [entered, wanted, pending, first]);
  return (
    <Modal opened onClose={close} withCloseButton={false} padding={0} size={560} aria-label="Find">
      <input
        className={css.input}
        data-autofocus
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-label="Find a job, run or screen"
        aria-activedescendant={shown[current] ? `${list}-${current}` : undefined}
        placeholder="Part of a job's name, run_…, job_…, or a screen"
        value={text}
        onChange={(e) => {
          setText(e.currentTarget.value);
          setAt(0);
          setEntered(null);
        }}
        onKeyDown={key}
        spellCheck={false}
        autoComplete="off"
      />
      <ul id={list} role="listbox" aria-label="Results" className={css.list}>
        {shown.map((e, i) => (
          <li
            key={e.id}
            id={`${list}-${i}`}
            role="option"
            aria-selected={i === current}
            className={css.entry}
            onMouseEnter={() => setAt(i)}
            onClick={e.go}
          >
            <Icon name={e.icon} />
            <span className="clip grow">{e.label}</span>
            <span className="dim">{e.hint}</span>
          </li>
        ))}
      </ul>
      {shown.length === 0 && <p className={css.none}>{pending ? 'Searching…' : 'No job, run or screen matches.'}</p>}
    </Modal>
  );
}
