import { Autocomplete } from '@mantine/core';
import { useState } from 'react';
import { api, unwrap } from '../../api/client';
import { useData } from '../../api/live';
import { numberOr, setIn } from '../../lib/definition';
import { Issues, SelectField, TextField } from '../../ui/input';
import { JSONField } from './json-field';
import { Pairs } from './pairs';
import { useEditing, useField } from './state';
import css from './editor.module.css';

export function NameField() {
  const field = useField(['name']);
  // oxlint-disable-next-line jsx-a11y/no-autofocus -- the form of a new job begins with it
  return <TextField label="Name" mono placeholder="nightly-report" autoFocus={!field.value} {...field} />;
}

/** What is sent with each run. */
export function PayloadSection() {
  const { def, edit, issues } = useEditing();
  return (
    <section className={css.section} aria-labelledby="payload-head">
      <h2 id="payload-head">Payload</h2>
      <JSONField
        label="Sent with each run (JSON)"
        field="payload"
        value={def.payload}
        placeholder={'{"report": "sales"}'}
        issues={issues('payload')}
        rows={4}
        write={(v) => edit((d) => setIn(d, ['payload'], v))}
      />
    </section>
  );
}

/** For people, for filters, and for the order of runs. */
export function DetailsSection() {
  const { def, edit, issues, touch } = useEditing();
  const labels = issues('labels');
  const priority = useField(['priority'], numberOr);
  const levels = Array.from({ length: 10 }, (_, i) => ({
    value: i === 0 ? '' : String(i),
    label: i === 0 ? '0 (default)' : String(i),
  }));
  return (
    <section className={css.section} aria-labelledby="details-head">
      <h2 id="details-head">Details</h2>
      <TextField label="Description" placeholder="Sends the sales report." spellCheck {...useField(['description'])} />
      <div className={css.pair}>
        <TextField label="Owner" placeholder="billing" {...useField(['owner'])} />
        <QueueField />
        <SelectField label="Priority" options={levels} {...priority} value={priority.value === '0' ? '' : priority.value} />
      </div>
      <Pairs
        legend="Labels"
        names={{ key: 'Label', value: 'Value of label', add: 'Label' }}
        keyPlaceholder="team"
        valuePlaceholder="billing"
        value={def.labels}
        write={(v) => edit((d) => setIn(d, ['labels'], v))}
        onBlur={() => touch('labels')}
      />
      {labels.length > 0 && <Issues issues={labels} at="labels" />}
    </section>
  );
}

/** A queue, with those that exist. They are read when the input gets the focus. */
function QueueField() {
  const { value, onValue, onBlur, issues } = useField(['queue']);
  const [asked, setAsked] = useState(false);
  const q = useData({
    key: ['queue-names'],
    get: (signal) => unwrap(api.GET('/api/v1/queues', { params: { query: { page_size: 200 } }, signal })),
    enabled: asked,
  });
  return (
    <div>
      <Autocomplete
        label="Queue"
        placeholder="default"
        value={value}
        onChange={onValue}
        onBlur={onBlur}
        onFocus={() => setAsked(true)}
        spellCheck={false}
        data={(q.data?.items ?? []).map((x) => x.name)}
        limit={20}
        error={issues.length > 0}
        comboboxProps={{ transitionProps: { duration: 0 } }}
      />
      {issues.length > 0 && <Issues issues={issues} />}
    </div>
  );
}
