import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  changes,
  conflicts,
  inputForm,
  merge,
  objectOf,
  scheduleOf,
  setIn,
  withExpression,
  withOption,
  type Definition,
} from './definition';
import { compactExact, equalExact, isObject, parseExact, Raw, TextError, type Exact } from './json';
import { fromYAML, toYAML } from './yaml';

const def = (text: string) => parseExact(text) as Definition;

const exactNumber = fc.oneof(
  fc.integer().map((n) => new Raw(String(n))),
  fc
    .constantFrom('9007199254740993', '-12345678901234567890123', '1e400', '0.10000000000000000555', '1.0', '1E+2', '-0')
    .map((s) => new Raw(s)),
);
// Texts that readers of YAML are known to misread.
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.string({ maxLength: 12 }),
  fc.constantFrom(
    'no',
    'on',
    'y',
    '~',
    'null',
    'true',
    '007',
    '0x10',
    '0o7',
    '0b1',
    '1_000',
    '1:30',
    '2026-12-25',
    '<<',
    '=',
    '-',
    '- a',
    'a: b',
    '#x',
    ' x ',
    '',
    '.inf',
    '*a',
    '&a',
    '!t',
    '{',
    '[',
    '"',
    "'",
    '|',
    '>',
    '%',
    '@',
    '`',
    '\n',
    'a\n',
    'a\n\nb\n',
    '\ta',
    'a\t\n',
    '\u2028',
    '\u0085',
    '\u0000',
    '\ufeff',
    '...',
    '---',
    '1e3',
    '12e03',
    '+1',
    '.5',
    '5.',
  ),
);
const { tree: anything } = fc.letrec<{ tree: Exact; leaf: Exact; list: Exact[]; object: Exact }>((tie) => ({
  tree: fc.oneof({ maxDepth: 3, withCrossShrink: true }, tie('leaf'), tie('list'), tie('object')),
  leaf: fc.oneof(text, exactNumber, fc.boolean(), fc.constant(null)),
  list: fc.array(tie('tree'), { maxLength: 4 }),
  object: fc.array(fc.tuple(text, tie('tree')), { maxLength: 4 }).map((pairs) => objectOf(pairs)),
}));
const duration = fc.constantFrom('1s', '30s', '90s', '15m', '1h30m', '7d');
const optional = <T extends Exact>(a: fc.Arbitrary<T>) => fc.option(a, { nil: undefined });
const record = (shape: Record<string, fc.Arbitrary<Exact | undefined>>) =>
  fc.record(shape).map((o) => objectOf(Object.entries(o).filter((e): e is [string, Exact] => e[1] !== undefined)));
const schedule = fc.oneof(
  fc.constantFrom('0 9 * * 1-5', 'every 15m', 'FREQ=DAILY;BYHOUR=9', '2027-01-31T09:00:00Z', '@daily'),
  record({
    cron: fc.constantFrom('30 2 * * *', 'H H(0-5) * * *', '0 0 1,15 * fri#2'),
    timezone: optional(fc.constantFrom('Europe/Berlin', 'UTC')),
    dst: optional(record({ gap: optional(fc.constantFrom('shift', 'skip')), fold: optional(fc.constantFrom('first', 'both')) })),
    calendars: optional(
      fc.array(
        record({
          dates: optional(fc.array(fc.constantFrom('12-25', '2026-12-24/2027-01-01'))),
          weekdays: optional(fc.array(fc.constantFrom('sat', 'sun'))),
        }),
      ),
    ),
    jitter: optional(duration),
    start_at: optional(fc.constant('2027-01-01T00:00:00Z')),
  }),
);
const definition = record({
  name: text,
  description: optional(text),
  owner: optional(text),
  labels: optional(fc.array(fc.tuple(text, text), { maxLength: 3 }).map((p) => objectOf(p))),
  queue: optional(text),
  priority: optional(fc.integer({ min: 0, max: 9 }).map((n) => new Raw(String(n)))),
  schedule,
  target: record({ kind: fc.constantFrom('http', 'worker', 'noop'), config: optional(anything) }),
  payload: optional(anything),
  retry: optional(
    record({
      max_attempts: optional(fc.constantFrom(new Raw('3'), new Raw('7'))),
      base: optional(duration),
      jitter: optional(fc.constant(new Raw('0.25'))),
    }),
  ),
  missed: optional(record({ policy: optional(fc.constantFrom('once', 'all')), catch_up_window: optional(duration) })),
  timeout: optional(duration),
});

const same = (a: Exact | undefined, b: Exact | undefined) => {
  if (!equalExact(a, b))
    throw new Error(`${a === undefined ? 'nothing' : compactExact(a)} became ${b === undefined ? 'nothing' : compactExact(b)}`);
};

describe('a definition', () => {
  it('survives form → YAML → form', () => {
    fc.assert(
      fc.property(definition, (d) => {
        const yaml = toYAML(inputForm(d));
        const items = fromYAML(yaml);
        expect(items.length).toBe(1);
        same(d, items[0]!.value);
        const again = toYAML(inputForm(items[0]!.value));
        if (again !== yaml) throw new Error(`${yaml}\n became \n${again}`);
      }),
      { numRuns: 300 },
    );
  });
  it('survives an edit that is taken back', () => {
    fc.assert(
      fc.property(
        definition,
        fc.constantFrom(['retry', 'cap'], ['missed', 'pace'], ['concurrency', 'key'], ['deadline']),
        (d, path) => {
          const edited = setIn(d, path, '1m');
          const back = setIn(edited, path, undefined);
          expect(changes(d, back)).toEqual([]);
        },
      ),
      { numRuns: 300 },
    );
  });
  it('is the sum of another and the changes to it', () => {
    fc.assert(
      fc.property(definition, definition, (a, b) => {
        const merged = merge(a, b, a);
        expect(changes(b, merged)).toEqual([]);
        expect(changes(a, a)).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});

describe('changes', () => {
  it('are by field, without defaults', () => {
    const list = changes(
      def(
        '{"name":"a","schedule":"30 2 * * *","target":{"kind":"http","config":{"url":"x"}},' +
          '"retry":{"max_attempts":3},"timeout":"30s","payload":{"n":9007199254740993}}',
      ),
      def(
        '{"name":"a","schedule":{"cron":"15 2 * * *","timezone":"UTC"},"target":{"kind":"http","config":{"url":"x","method":"PUT"}},' +
          '"retry":{"max_attempts":5},"payload":{"n":9007199254740992}}',
      ),
    );
    expect(list.map((c) => [c.path.join('.'), c.before && compactExact(c.before), c.after && compactExact(c.after)])).toEqual([
      ['schedule.cron', '"30 2 * * *"', '"15 2 * * *"'],
      ['target.config.method', undefined, '"PUT"'],
      ['payload', '{"n":9007199254740993}', '{"n":9007199254740992}'],
      ['retry.max_attempts', undefined, '5'],
    ]);
  });
  it('do not name what is written in another way', () => {
    expect(
      changes(
        def('{"name":"a","schedule":"every 15m","timeout":"30s"}'),
        def('{"name":"a","schedule":{"every":"15m"},"retry":{}}'),
      ),
    ).toEqual([]);
    expect(changes(def('{"report_timeout":"60m"}'), def('{}'))).toEqual([]);
  });
  it('of two people conflict only in the same field', () => {
    const base = def('{"name":"a","timeout":"10s","retry":{"base":"1s"}}');
    const mine = def('{"name":"a","timeout":"20s","retry":{"base":"1s"}}');
    expect(conflicts(base, mine, def('{"name":"a","timeout":"10s","retry":{"base":"2s"}}'))).toEqual([]);
    expect(conflicts(base, mine, def('{"name":"a","timeout":"40s"}'))).toEqual([['timeout']]);
    expect(conflicts(base, mine, mine)).toEqual([]);
    expect(compactExact(merge(base, mine, def('{"name":"a","timeout":"10s","retry":{"base":"2s"}}')))).toBe(
      '{"name":"a","retry":{"base":"2s"},"timeout":"20s"}',
    );
  });
});

describe('a schedule', () => {
  it('that is one text stays one', () => {
    expect(withExpression(def('{"schedule":"every 15m"}'), 'every', '5m').schedule).toBe('every 5m');
    expect(withExpression(def('{"schedule":"0 9 * * *"}'), 'cron', '0 8 * * *').schedule).toBe('0 8 * * *');
  });
  it('becomes an object when it gets an option', () => {
    const d = withOption(def('{"schedule":"0 9 * * *"}'), ['timezone'], 'Europe/Berlin');
    expect(compactExact(d.schedule!)).toBe('{"cron":"0 9 * * *","timezone":"Europe/Berlin"}');
    expect(compactExact(withOption(d, ['timezone'], undefined).schedule!)).toBe('{"cron":"0 9 * * *"}');
  });
  it('has one kind', () => {
    const d = withExpression(def('{"schedule":{"cron":"0 9 * * *","timezone":"Europe/Berlin"}}'), 'every', '5m');
    expect(compactExact(d.schedule!)).toBe('{"every":"5m","timezone":"Europe/Berlin"}');
    expect(scheduleOf(d.schedule).kind).toBe('every');
  });
});

describe('YAML', () => {
  const read = (yaml: string) => fromYAML(yaml).map((i) => `${i.line} ${compactExact(i.value)}`);
  it('is read as the command line reads it', () => {
    expect(
      read(
        '# a comment\nname: report\nlabels: {team: finance}\ndates: [2026-12-25, 12-31]\n' +
          'big: 12345678901234567890\non: true\ntext: "007"\n---\n- name: ping\n- name: pong\n',
      ),
    ).toEqual([
      '2 {"name":"report","labels":{"team":"finance"},"dates":["2026-12-25","12-31"],"big":12345678901234567890,"on":true,"text":"007"}',
      '9 {"name":"ping"}',
      '10 {"name":"pong"}',
    ]);
    expect(read('[0x10, 010, 1_000, 0b11, +5, .5, 1e3, 1.50, no, ~, 12:30]')).toEqual(
      [16, 8, 1000, 3, 5].map((n) => `1 ${n}`).concat(['1 0.5', '1 1e3', '1 1.50', '1 "no"', '1 null', '1 "12:30"']),
    );
    for (const empty of ['', '---\n# nothing\n', '[]']) expect(read(empty)).toEqual([]);
  });
  it('reads JSON', () => expect(read('{"name": "a",\n "n": 1.0}')).toEqual(['1 {"name":"a","n":1.0}']));
  it.each([
    ['{name: a, name: b}', 1, 'name is there twice'],
    ['a: 1\n<<: {}', 2, '<< is not supported'],
    ['a: 1\nb: .nan', 2, '.nan is not a number'],
    ['a: !!binary x', 1, 'not supported'],
    ['a: 1\nb: [', 2, ''],
    ['a: &x [*x]', 1, 'too deep'],
    ['a: *y', 1, ''],
  ])('that is wrong has a line: %j', (yaml, line, message) => {
    let found: unknown;
    try {
      read(yaml);
    } catch (e) {
      found = e;
    }
    expect(found).toBeInstanceOf(TextError);
    expect((found as TextError).line).toBe(line);
    expect((found as TextError).message).toContain(message);
  });
  it('of a payload keeps every number', () => {
    fc.assert(
      fc.property(anything, (v) => {
        const yaml = toYAML(objectOf([['payload', v]]));
        const back = fromYAML(yaml)[0]!.value;
        if (!isObject(back)) throw new Error(yaml);
        same(v, back.payload);
      }),
      { numRuns: 300 },
    );
  });
});
