import { SegmentedControl } from '@mantine/core';
import { useParams } from '@tanstack/react-router';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useData } from '../../api/live';
import { useSession } from '../../api/session';
import { changes, inputForm, merge, objectOf, setIn, type Definition } from '../../lib/definition';
import { compactExact } from '../../lib/json';
import { useUrl } from '../../lib/search';
import { Button, LinkButton } from '../../ui/control';
import { Dialog } from '../../ui/dialog';
import { Issues, type Issue } from '../../ui/input';
import { Page } from '../../ui/page';
import { Forbidden, Loaded, ProblemView } from '../../ui/state';
import { ConflictDialog, WhatChanges } from './changes';
import { DetailsSection, NameField, PayloadSection } from './details';
import { PoliciesSection } from './policies';
import { PreviewPane, usePreview } from './preview';
import { load, useLeaving, useSave, useSaveKey, type Conflict, type Loadable } from './save';
import { ScheduleSection } from './schedule';
import { anchorOf, EditingContext, type Editing } from './state';
import { TargetSection } from './target';
import { YAMLView, type Draft } from './yaml-view';
import css from './editor.module.css';

const blank = (): Definition =>
  objectOf([
    ['name', ''],
    ['schedule', objectOf([['cron', '']])],
    [
      'target',
      objectOf([
        ['kind', 'http'],
        ['config', objectOf([['url', '']])],
      ]),
    ],
  ]);

/** The screen: is this the schedule I mean? */
export default function EditorScreen() {
  const { job } = useParams({ strict: false }) as { job?: string };
  const { role, may } = useSession();
  const [url] = useUrl();
  const from = job ?? url.from;
  const allowed = may('editor');
  const [mount] = useState(Math.random); // each visit reads the job again: an old answer would be an old version
  const q = useData({ key: ['editor', from, mount], get: (signal) => load(from!, signal), enabled: allowed && !!from });
  const title = job ? `Edit ${q.data?.name ?? ''}` : 'New job';
  const crumbs = [
    { label: 'Jobs', link: { to: '/jobs' } },
    ...(job && q.data ? [{ label: q.data.name, link: { to: '/jobs/$job', params: { job: q.data.id } } as never }] : []),
  ];
  if (!allowed) {
    return (
      <Page title={job ? 'Edit a job' : 'New job'} crumbs={crumbs}>
        <Forbidden detail={`Jobs are created and changed with the role editor. Your key has the role ${role}.`} />
      </Page>
    );
  }
  if (!from) return <Editor key="new" initial={{ def: blank(), name: '' }} crumbs={crumbs} title={title} />;
  if (q.data) {
    const initial: Loadable = job ? q.data : { def: setIn(q.data.def, ['name'], `${q.data.name}-copy`), name: '' };
    return <Editor key={from} initial={initial} crumbs={crumbs} title={title} />;
  }
  return (
    <Page title={title} crumbs={crumbs}>
      <Loaded query={q}>{() => null}</Loaded>
    </Page>
  );
}

function Editor({
  initial,
  crumbs,
  title,
}: {
  initial: Loadable;
  crumbs: React.ComponentProps<typeof Page>['crumbs'];
  title: string;
}) {
  const [base, setBase] = useState({ def: initial.id ? initial.def : blank(), version: initial.version ?? 0 });
  const [def, setDef] = useState(initial.def);
  const [url, setURL] = useUrl();
  const yaml = url.view === 'yaml';
  const [broken, setBrokenState] = useState<Record<string, string>>({});
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  const [submits, setSubmits] = useState(0);
  const tried = submits > 0 || !!initial.id;
  const draft = useRef<Draft | null>(null);
  const { query, settled } = usePreview(def);
  const save = useSave(initial.id);
  const list = useMemo(() => changes(base.def, def), [base.def, def]);
  const dirty = list.length > 0 || Object.keys(broken).length > 0;

  const edit = useCallback(
    (change: (d: Definition) => Definition) => {
      setDef(change);
      save.clear();
    },
    [save.clear],
  );
  const setBroken = useCallback(
    (field: string, problem: string | undefined) =>
      setBrokenState((old) => {
        if (old[field] === problem) return old;
        const next = { ...old };
        if (problem === undefined) delete next[field];
        else next[field] = problem;
        return next;
      }),
    [],
  );
  const touch = useCallback((field: string) => setTouched((old) => (old.has(field) ? old : new Set([...old, field]))), []);

  const all: Issue[] = save.issues.length > 0 ? save.issues : (query.data?.issues ?? []);
  const shown = (field: string) =>
    tried ||
    touched.has(field) ||
    (field.startsWith('schedule') && compactExact(def.schedule ?? '') !== compactExact(blank().schedule!));
  const issues = (...fields: string[]) =>
    all.filter((x) => {
      const a = anchorOf(x.field);
      return a !== undefined && fields.includes(a) && shown(a);
    });
  const unplaced = all.filter((x) => anchorOf(x.field) === undefined);
  const editing: Editing = { def, edit, issues, touch, setBroken, broken };

  const submit = () => {
    setSubmits(submits + 1);
    if (Object.keys(broken).length > 0 || (settled && all.length > 0)) return;
    void save.run(inputForm(def), base.version);
  };
  useEffect(() => {
    if (submits > 0) focusProblem();
  }, [submits, save.issues]);
  useSaveKey(submit);
  const leaving = useLeaving(dirty, save.leaving);
  const blockedView = broken.yaml;
  const saving = initial.id ? `Save version ${base.version + 1}` : 'Create job';

  const settle = (what: 'merge' | 'mine' | 'theirs', c: Conflict) => {
    const next = what === 'theirs' ? c.theirs : what === 'mine' ? def : merge(base.def, def, c.theirs);
    setBase({ def: c.theirs, version: c.version });
    setDef(next);
    draft.current = null;
    save.settled();
    if (what !== 'theirs') void save.run(inputForm(next), c.version);
  };

  return (
    <EditingContext value={editing}>
      <Page
        title={title}
        crumbs={crumbs ?? []}
        sub={initial.id ? `version ${base.version}. Saving creates version ${base.version + 1}.` : undefined}
        actions={
          <>
            <SegmentedControl
              aria-label="View"
              size="xs"
              value={yaml ? 'yaml' : 'form'}
              data={[
                { value: 'form', label: 'Form' },
                { value: 'yaml', label: 'YAML' },
              ]}
              onChange={(v) => {
                if (v === 'form' && blockedView) document.querySelector<HTMLElement>('textarea')?.focus();
                else setURL({ view: v === 'yaml' ? v : undefined });
              }}
            />
            <LinkButton {...(initial.id ? { to: '/jobs/$job', params: { job: initial.id } as never } : { to: '/jobs' })}>
              Cancel
            </LinkButton>
            <Button tone="primary" onClick={submit} busy={save.busy}>
              {saving}
            </Button>
          </>
        }
      >
        <Notices save={save} unplaced={unplaced} broken={submits > 0 ? broken : {}} />
        <form
          className={css.columns}
          onSubmit={(e) => {
            e.preventDefault();
            submit();
          }}
          noValidate
          data-view={yaml ? 'yaml' : 'form'}
        >
          <div className={css.first}>
            {yaml ? (
              <YAMLView
                def={def}
                write={(d) => edit(() => d)}
                issues={tried ? all : all.filter((x) => x.field.startsWith('schedule'))}
                setBroken={(p) => setBroken('yaml', p)}
                draft={draft}
              />
            ) : (
              <>
                <NameField />
                <ScheduleSection />
              </>
            )}
          </div>
          <aside className={css.aside} aria-label="Preview">
            <PreviewPane
              def={def}
              base={base.def}
              fresh={!initial.id}
              query={query}
              edited={!initial.id || list.some((c) => c.path[0] === 'schedule')}
            >
              {initial.id && <WhatChanges base={base.def} def={def} valid={settled && all.length === 0} />}
            </PreviewPane>
          </aside>
          {!yaml && (
            <div className={css.rest}>
              <TargetSection />
              <PayloadSection />
              <PoliciesSection />
              <DetailsSection />
              <div className={css.foot}>
                <Button type="submit" tone="primary" busy={save.busy} onClick={undefined}>
                  {saving}
                </Button>
                <span className="dim">or Ctrl S</span>
              </div>
            </div>
          )}
        </form>
        {save.conflict && (
          <ConflictDialog
            base={base.def}
            mine={def}
            {...save.conflict}
            close={save.settled}
            choose={(what) => settle(what, save.conflict!)}
          />
        )}
        <Dialog title="Leave without saving?" open={leaving.asks} close={leaving.stay} action="Leave" act={leaving.go} danger>
          <p>What you changed is not saved, and will be lost.</p>
        </Dialog>
      </Page>
    </EditingContext>
  );
}

function Notices({
  save,
  unplaced,
  broken,
}: {
  save: ReturnType<typeof useSave>;
  unplaced: Issue[];
  broken: Record<string, string>;
}) {
  const texts = Object.entries(broken).filter(([k]) => k !== 'yaml');
  return (
    <>
      {save.error && <ProblemView error={save.error} quiet />}
      {unplaced.length > 0 && (
        <div className={css.unplaced}>
          <Issues issues={unplaced} at="" />
        </div>
      )}
      {texts.length > 0 && (
        <div className={css.unplaced}>
          <Issues issues={texts.map(([field, problem]) => ({ field, problem }))} at="" />
        </div>
      )}
    </>
  );
}

function focusProblem(): void {
  const first = document.querySelector<HTMLElement>('[aria-invalid=true], [data-error=true] input, [data-issues]');
  first?.scrollIntoView({ block: 'center' });
  first?.focus();
}
