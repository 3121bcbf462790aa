import { spawn, type ChildProcess } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer as listen } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

// A real node with a database of its own, the targets of its jobs, and a worker. Everything is on loopback.

// Another binary than the one of this checkout, such as an older one.
const binary = process.env.BELFRY_BINARY ?? resolve(import.meta.dirname, '../../bin/belfry');

/** A port on which nothing listens, below those that the system gives to other listeners and connections. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const s = listen();
    const free = await new Promise<boolean>((done) => {
      s.once('error', () => done(false));
      s.listen(port, '127.0.0.1', () => done(true));
    });
    if (!free) continue;
    await new Promise((done) => s.close(done));
    return port;
  }
}

/** Waits until a condition holds. It fails after two minutes, which no machine needs. */
export async function until<T>(what: string, read: () => Promise<T | undefined | false>): Promise<T> {
  const end = Date.now() + 120_000;
  let last: unknown;
  while (Date.now() < end) {
    try {
      const value = await read();
      if (value) return value;
    } catch (e) {
      last = e;
    }
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`${what}: not seen${last ? `: ${String(last)}` : ''}`);
}

export class World {
  dir = '';
  url = '';
  key = '';
  /** The URL that logs in once. */
  loginURL = '';
  targets = '';
  /** Whether the target /billing answers 502. */
  broken = true;
  private child: ChildProcess | undefined;
  private server: Server | undefined;
  private stopping = false;
  private worker = false;
  private reports = 0;
  private port = 0;
  private echo = 0;

  async start(): Promise<void> {
    if (!existsSync(binary)) throw new Error(`${binary} is missing: run make build`);
    // PostgreSQL may run as another user, who must reach the directory.
    this.dir = mkdtempSync(join(tmpdir(), 'belfry-world-'));
    chmodSync(this.dir, 0o711);
    this.port = await freePort();
    this.echo = await freePort();
    await this.startTargets();
    await this.startNode();
  }

  /** Targets: /ok answers 200, /report after some milliseconds, /slow after two seconds, /billing 502 while broken, /gone 410, /bad 400, /echo 400 with its query,
   * /unknown 400 with its path. */
  private async startTargets(): Promise<void> {
    this.server = createServer((req, res) => {
      const answer = (status: number, body: string) => { res.writeHead(status, { 'Content-Type': 'text/plain' }); res.end(body); };
      req.resume();
      const path = (req.url ?? '').split('?')[0];
      if (path?.startsWith('/report')) setTimeout(() => answer(200, 'sent'), 40 + (this.reports++ % 7) * 20);
      else if (path?.startsWith('/slow')) setTimeout(() => answer(200, 'done'), 2000);
      else if (path?.startsWith('/billing')) answer(this.broken ? 502 : 200, this.broken ? 'upstream billing-7 refused the connection' : 'ok');
      else if (path?.startsWith('/crm')) answer(429, 'Too Many Requests');
      else if (path?.startsWith('/gone')) answer(410, 'Gone');
      else if (path?.startsWith('/echo')) answer(400, new URL(req.url!, 'http://x').searchParams.get('q') ?? '');
      else if (path?.startsWith('/unknown/')) answer(400, `${path.slice('/unknown/'.length)} is not known`);
      else if (path?.startsWith('/bad')) answer(400, 'order 4711 is not known');
      else answer(200, 'ok');
    });
    await new Promise<void>((done) => this.server!.listen(0, '127.0.0.1', done));
    this.targets = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async startNode(): Promise<void> {
    const args = ['dev', '--echo', `127.0.0.1:${this.echo}`, '--listen', `127.0.0.1:${this.port}`, '--data', join(this.dir, 'data')];
    this.url = `http://127.0.0.1:${this.port}`;
    this.child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    this.child.stdout!.on('data', (b: Buffer) => { out += b.toString(); });
    this.child.stderr!.on('data', (b: Buffer) => { out += b.toString(); });
    const child = this.child;
    child.once('exit', (code, signal) => {
      if (!this.stopping) console.error(`the node ended by itself: ${code ?? signal}\n${out.slice(-4000)}`);
    });
    await until(`the node to start`, async () => {
      if (child.exitCode !== null) throw new Error(out);
      return out.includes('export BELFRY_SERVER');
    });
    this.loginURL = /http:\/\/\S+\/ui\/login#code=[\w-]+/.exec(out)?.[0] ?? '';
    const secrets = readFileSync(join(this.dir, 'data', 'secrets.yaml'), 'utf8');
    this.key = /^key: (\S+)/m.exec(secrets)![1]!;
  }

  async stopNode(): Promise<void> {
    const child = this.child;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((done) => child.once('exit', done));
    this.stopping = true;
    child.kill('SIGINT');
    await ended;
    this.stopping = false;
  }

  async stop(): Promise<void> {
    this.worker = false;
    await this.stopNode();
    this.server?.closeAllConnections();
    await new Promise((done) => (this.server ? this.server.close(done) : done(undefined)));
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** A call to the API with the key. */
  async call<T = Record<string, unknown>>(method: string, path: string, body?: unknown, type = 'application/json'): Promise<T> {
    const r = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.key}`, ...(body === undefined ? {} : { 'Content-Type': type }) },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await r.text();
    if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${text}`);
    return (text ? JSON.parse(text) : {}) as T;
  }

  /** A worker of a queue that succeeds with everything, until the world stops. */
  async work(queue: string, handler: string): Promise<void> {
    this.worker = true;
    const open = async () => {
      const session = await this.call<{ id: string }>('POST', `/queues/${queue}/sessions`, { name: 'worker-1', slots: 10 });
      return `/queues/${queue}/sessions/${session.id}`;
    };
    let base = await open();
    const loop = async () => {
      while (this.worker) {
        try {
          base ||= await open();
          const got = await this.call<{ runs?: { run: string; attempt: number }[] }>('POST', `${base}:claim`, { handlers: [handler], max: 10, wait_ms: 1000 });
          const reports = (got.runs ?? []).map((r) => ({ run: r.run, attempt: r.attempt, outcome: 'succeeded' }));
          if (reports.length > 0) await this.call('POST', `${base}:complete`, { reports });
          await this.call('POST', `${base}:heartbeat`, { runs: [] });
        } catch { // the node restarts, or the session has ended
          base = '';
          await new Promise((done) => setTimeout(done, 500));
        }
      }
    };
    void loop();
  }
}
