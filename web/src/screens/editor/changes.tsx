import { Modal } from '@mantine/core';
import { send, type Schemas } from '../../api/client';
import { useData } from '../../api/live';
import { brief, changes, conflicts, fieldName, inputForm, type Change, type Definition, type Path } from '../../lib/definition';
import { compactExact } from '../../lib/json';
import { count } from '../../lib/number';
import { Button, Tag } from '../../ui/control';
import { useDebounced } from './preview';
import css from './changes.module.css';

const cut = (text: string) => (text.length > 300 ? text.slice(0, 300) + '…' : text);

/** Fields with their values before and after. */
export function ChangeList({
  list,
  marked = [],
  label = 'Fields that change',
}: {
  list: Change[];
  marked?: Path[];
  label?: string;
}) {
  const hit = new Set(marked.map(fieldName));
  return (
    <table className={css.list}>
      <caption className="sr">{label}</caption>
      <thead className="sr">
        <tr>
          <th scope="col">Field</th>
          <th scope="col">Before</th>
          <th scope="col">After</th>
        </tr>
      </thead>
      <tbody>
        {list.map((c) => {
          const field = fieldName(c.path);
          return (
            <tr key={field}>
              <th scope="row">
                <code>{field}</code>
                {hit.has(field) && (
                  <>
                    {' '}
                    <Tag tone="warn">both changed it</Tag>
                  </>
                )}
              </th>
              {c.omitted ? (
                <td colSpan={2} className="dim">
                  It differs. The values are too large to show.
                </td>
              ) : (
                <>
                  <td className={c.before === undefined ? 'dim' : css.before}>
                    <span aria-hidden="true">− </span>
                    {cut(brief(c.before, field))}
                  </td>
                  <td className={c.after === undefined ? 'dim' : css.after}>
                    <span aria-hidden="true">+ </span>
                    {cut(brief(c.after, field))}
                  </td>
                </>
              )}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** What saving would change: the fields, and how many occurrences of the next 24 hours. */
export function WhatChanges({ base, def, valid }: { base: Definition; def: Definition; valid: boolean }) {
  const list = changes(base, def);
  const line = useDebounced(compactExact(inputForm(def)), 250);
  const scheduled = list.some((c) => c.path[0] === 'schedule');
  const q = useData({
    key: ['jobs-diff', line],
    get: async (signal) =>
      JSON.parse(
        await send('POST', '/api/v1/jobs:diff', line + '\n', { 'Content-Type': 'application/x-ndjson' }, signal),
      ) as Schemas['DiffResult'],
    enabled: scheduled && valid,
    keep: true,
  });
  const item = scheduled && valid ? q.data?.items[0] : undefined;
  return (
    <section className={css.what} aria-labelledby="changes-head">
      <h3 id="changes-head">What changes</h3>
      {list.length === 0 ? <p className="dim">Nothing yet.</p> : <ChangeList list={list} />}
      {item?.occurrences_before !== undefined && item.occurrences_after !== undefined && (
        <p className={css.note}>
          Occurrences in the next 24 hours: {count(item.occurrences_before)} → <b>{count(item.occurrences_after)}</b>
        </p>
      )}
    </section>
  );
}

/** Another user saved a version in the meantime: both are shown, and the user chooses. */
export function ConflictDialog({
  base,
  mine,
  theirs,
  version,
  by,
  close,
  choose,
}: {
  base: Definition;
  mine: Definition;
  theirs: Definition;
  version: number;
  by: string;
  close: () => void;
  choose: (what: 'merge' | 'mine' | 'theirs') => void;
}) {
  const own = changes(base, mine);
  const other = changes(base, theirs);
  const both = conflicts(base, mine, theirs);
  return (
    <Modal
      opened
      onClose={close}
      title={`The job has changed: it is version ${version} now`}
      size="xl"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div className={css.conflict}>
        <p>
          {by} saved version {version} while you were editing. Nothing of yours is saved yet.
        </p>
        <h3>Changed in version {version}</h3>
        {other.length === 0 ? (
          <p className="dim">Nothing that differs.</p>
        ) : (
          <ChangeList list={other} marked={both} label="Their changes" />
        )}
        <h3>Changed by you</h3>
        {own.length === 0 ? <p className="dim">Nothing.</p> : <ChangeList list={own} marked={both} label="Your changes" />}
        <div className={css.foot}>
          <Button onClick={() => choose('theirs')}>Take version {version}</Button>
          <Button onClick={() => choose('mine')} tone={both.length > 0 ? 'danger' : 'plain'}>
            Keep mine, replace theirs
          </Button>
          <Button
            tone="primary"
            data-autofocus
            onClick={() => choose('merge')}
            blocked={both.length > 0 ? 'Both changed the same field. Choose one of the versions.' : undefined}
          >
            Keep both changes
          </Button>
        </div>
      </div>
    </Modal>
  );
}
