import { useState, type ReactNode } from 'react';
import { defaultText, getIn, isDefault, numberOr, scheduleOf, setIn, type Path } from '../../lib/definition';
import { Button, Tag } from '../../ui/control';
import { Issues, SelectField, TextField, type Option } from '../../ui/input';
import { useEditing, useField } from './state';
import css from './editor.module.css';

const missed: Option[] = [
  { value: 'skip', label: 'Skip them' },
  { value: 'once', label: 'Run the newest once' },
  { value: 'all', label: 'Run all' },
];
const overlaps: Option[] = [
  { value: 'skip', label: 'Skip the new one' },
  { value: 'queue', label: 'Let one wait, skip further ones' },
  { value: 'queue_all', label: 'Let all wait' },
  { value: 'allow', label: 'Run both' },
  { value: 'replace', label: 'Cancel the running one' },
];
const backoffs: Option[] = [
  { value: 'exponential', label: 'exponential' },
  { value: 'linear', label: 'linear' },
  { value: 'fixed', label: 'fixed' },
  { value: 'none', label: 'without delay' },
];
const deliveries: Option[] = [
  { value: 'at_least_once', label: 'At least once' },
  { value: 'at_most_once', label: 'At most once' },
];

/** What happens when something does not go as planned. Defaults are grey, changes are tagged. */
export function PoliciesSection() {
  const { def } = useEditing();
  const value = (path: Path) => getIn(def, path);
  const policy = value(['missed', 'policy']);
  const backoff = value(['retry', 'backoff']);
  const once = scheduleOf(def.schedule).kind === 'at';
  return (
    <section className={css.section} aria-labelledby="policies-head">
      <h2 id="policies-head">When something goes wrong</h2>
      <div>
        <Row
          label="Missed while the cluster was down"
          fields={[
            ['missed', 'policy'],
            ['missed', 'catch_up_window'],
            ['missed', 'max'],
            ['missed', 'pace'],
          ]}
          at="missed"
        >
          <Choice label="Missed occurrences" path={['missed', 'policy']} options={missed} />
          {policy !== 'skip' && (
            <Words before="if at most" after="late">
              <Text label="Catch-up window" path={['missed', 'catch_up_window']} />
            </Words>
          )}
          {policy === 'all' && (
            <Words before="at most" after="of them">
              <Text label="Maximum" path={['missed', 'max']} number />
            </Words>
          )}
          {policy === 'all' && (
            <Words before="one each">
              <Text label="Pace" path={['missed', 'pace']} />
            </Words>
          )}
        </Row>
        <Row label="Missed while the job was paused" fields={[['missed', 'paused']]}>
          <Choice label="Missed while paused" path={['missed', 'paused']} options={missed} />
        </Row>
        {once && (
          <Row label="The time had passed when it was created" fields={[['missed', 'created']]}>
            <Choice
              label="Time had passed"
              path={['missed', 'created']}
              options={[missed[0]!, { value: 'once', label: 'Run it' }]}
            />
          </Row>
        )}
        <Row label="Still running when the next is due" fields={[['overlap']]} at="overlap">
          <Choice label="Overlap" path={['overlap']} options={overlaps} />
        </Row>
        <Row
          label="Attempts"
          fields={[
            ['retry', 'max_attempts'],
            ['retry', 'backoff'],
            ['retry', 'base'],
            ['retry', 'cap'],
            ['retry', 'jitter'],
          ]}
          at="retry"
        >
          <Text label="Maximum number of attempts" path={['retry', 'max_attempts']} number />
          <Choice narrow label="Backoff" path={['retry', 'backoff']} options={backoffs} />
          {backoff !== 'none' && (
            <Words before="from">
              <Text label="First delay" path={['retry', 'base']} />
            </Words>
          )}
          {backoff !== 'none' && backoff !== 'fixed' && (
            <Words before="up to">
              <Text label="Longest delay" path={['retry', 'cap']} />
            </Words>
          )}
          {backoff !== 'none' && (
            <Words before="random part">
              <Text label="Random part of the delay" path={['retry', 'jitter']} number />
            </Words>
          )}
        </Row>
        <Row label="Timeout of one attempt" fields={[['timeout']]} at="timeout">
          <Text label="Timeout" path={['timeout']} />
        </Row>
        <Row label="Skip if not started" fields={[['deadline']]} at="deadline">
          <Words before="within" after="of the due time">
            <Text label="Deadline" path={['deadline']} none="never" />
          </Words>
        </Row>
        <Row label="Pause the job" fields={[['pause_after_failures']]} at="pause_after_failures">
          <Words before="after" after="failed runs in a row">
            <Text label="Failures in a row" path={['pause_after_failures']} number none="never" />
          </Words>
        </Row>
      </div>
      <Rest />
    </section>
  );
}

const restFields: Path[] = [
  ['report_timeout'],
  ['delivery'],
  ['concurrency', 'key'],
  ['concurrency', 'max'],
  ['idempotency_key'],
  ['keep_finished_for'],
];

/** Policies that few jobs need: shown if one is set. */
function Rest() {
  const { def, issues } = useEditing();
  const changed = restFields.some((p) => !isDefault(p.join('.'), getIn(def, p)) || issues(p[0]!).length > 0);
  const [open, setOpen] = useState(false);
  if (!open && !changed)
    return (
      <div className={css.adder}>
        <Button tone="quiet" icon="plus" onClick={() => setOpen(true)}>
          Delivery, limits and reports
        </Button>
      </div>
    );
  return (
    <div>
      <Row label="Delivery" fields={[['delivery']]} at="delivery">
        <Choice label="Delivery" path={['delivery']} options={deliveries} />
      </Row>
      <Row label="A target that accepted (202) reports" fields={[['report_timeout']]} at="report_timeout">
        <Words before="within">
          <Text label="Report timeout" path={['report_timeout']} />
        </Words>
      </Row>
      <Row
        label="Runs of all jobs with the same key"
        fields={[
          ['concurrency', 'key'],
          ['concurrency', 'max'],
        ]}
        at="concurrency"
      >
        <Text label="Concurrency key" path={['concurrency', 'key']} none="no key" wide />
        {getIn(def, ['concurrency', 'key']) !== undefined && (
          <Words before="at most" after="at the same time">
            <Text label="Maximum with the key" path={['concurrency', 'max']} number />
          </Words>
        )}
      </Row>
      <Row label="Idempotency key (CEL)" fields={[['idempotency_key']]} at="idempotency_key">
        <Text label="Idempotency key" path={['idempotency_key']} none="the run's id" wide />
      </Row>
      <Row label="Finished" fields={[['keep_finished_for']]} at="keep_finished_for">
        <Words before="kept for">
          <Text label="Keep when finished" path={['keep_finished_for']} />
        </Words>
      </Row>
    </div>
  );
}

function Row({ label, fields, at, children }: { label: string; fields: Path[]; at?: string; children: ReactNode }) {
  const { def, edit, issues } = useEditing();
  const changed = fields.some((p) => !isDefault(p.join('.'), getIn(def, p)));
  const wrong = [...new Set([at, ...fields.map((f) => f.join('.'))])].flatMap((f) => (f ? issues(f) : []));
  const reset = () => edit((d) => fields.reduce((x, p) => setIn(x, p, undefined), d));
  return (
    <div className={css.policy} data-changed={changed || undefined}>
      <div className={css.policyLabel}>{label}</div>
      <div className={css.policyControls}>
        {children}
        {wrong.length > 0 && <Issues issues={wrong} at="" />}
      </div>
      <div className={css.policyTag}>
        {changed ? (
          <>
            <Tag tone="accent">changed</Tag>
            <Button tone="quiet" iconOnly icon="redo" onClick={reset}>{`Reset: ${label}`}</Button>
          </>
        ) : (
          <span className="dim">default</span>
        )}
      </div>
    </div>
  );
}

const Words = ({ before, after, children }: { before: string; after?: string; children: ReactNode }) => (
  <span className={css.words}>
    <span>{before}</span>
    {children}
    {after && <span>{after}</span>}
  </span>
);

function Choice({ label, path, options, narrow }: { label: string; path: Path; options: Option[]; narrow?: boolean }) {
  const f = useField(path);
  const d = defaultText(path.join('.'));
  const known =
    f.value === '' || options.some((o) => o.value === f.value) ? options : [...options, { value: f.value, label: f.value }];
  return (
    <SelectField
      label={label}
      hideLabel
      className={narrow ? css.narrow : css.choice}
      options={known}
      value={f.value || d}
      quiet={f.value === '' || f.value === d}
      onValue={(v) => f.onValue(v === d ? '' : v)}
      onBlur={f.onBlur}
    />
  );
}

function Text({ label, path, number, none, wide }: { label: string; path: Path; number?: boolean; none?: string; wide?: boolean }) {
  const { issues: _, ...f } = useField(path, number ? numberOr : undefined);
  return (
    <TextField
      label={label}
      hideLabel
      mono
      className={wide ? css.long : css.short}
      {...f}
      {...(number ? { inputMode: 'decimal' as const } : {})}
      placeholder={none ?? defaultText(path.join('.'))}
    />
  );
}
