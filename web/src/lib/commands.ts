// Every command line that the UI shows, one on each line. A test of the command line parses each of them, with a word in the place of
// each ${…}.

const quoted = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

export const commands = {
  apply: 'belfry apply -f job.yaml',
  audit: 'belfry audit list',
  cluster: 'belfry cluster -o json',
  config: 'belfry config show',
  createJob: "belfry job create report --cron '0 2 * * *' --tz Europe/Berlin --url https://example.com/report",
  createKey: 'belfry key create ci --role editor --expires-in 90d',
  deadLetters: 'belfry dlq list',
  diff: 'belfry diff -f jobs.yaml',
  doctor: 'belfry doctor',
  firstJob: "belfry job create hello --every 1m --url https://example.com/hook",
  getJob: (job: string) => `belfry job get ${quoted(job)} -o yaml`,
  load: 'belfry load',
  loginKey: 'belfry key create NAME --role operator',
  redrive: 'belfry dlq redrive --job report --rate 10',
  runs: 'belfry run list',
  said: (args: string[]) => ['belfry', ...args.map(quoted)].join(' '),
  secret: 'belfry secret set api-token <token.txt',
  setQueue: 'belfry queue set imports --max-running 50 --rate 100/s',
  undo: (operation: string) => `belfry operation undo ${quoted(operation)}`,
  whyJob: (job: string, at: string) => `belfry why ${quoted(job)} ${quoted(at)}`,
  whyRun: (run: string) => `belfry why ${quoted(run)}`,
  workerKey: (queue: string) => `belfry key create ${quoted(queue + '-worker')} --role worker --queue ${quoted(queue)}`,
};
