import createClient, { type Middleware } from 'openapi-fetch';
import { heard } from '../lib/time';
import type { components, paths } from './schema.gen';

export type Schemas = components['schemas'];

/** A problem as the API writes it, or one that the network caused. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly requestId: string;
  readonly problems: { field: string; problem: string; fix: string }[];
  /** After how many milliseconds a retry makes sense; 0: now. */
  readonly retryAfter: number;

  constructor(status: number, body: Partial<Schemas['Problem']> & Record<string, unknown>, retryAfter = 0) {
    super(String(body.detail ?? body.title ?? `HTTP ${status}`));
    this.name = 'ApiProblem';
    this.status = status;
    this.code = String(body.code ?? (status === 0 ? 'network' : 'unknown'));
    this.detail = this.message;
    this.requestId = String(body.request_id ?? '');
    this.problems = (body.errors ?? body.problems ?? []) as ApiProblem['problems'];
    this.retryAfter = retryAfter;
  }
}

const unreachable = () =>
  new ApiProblem(0, { code: 'network', detail: 'The node does not answer. Check the network, or whether the node is running.' });

// Cookies authenticate the UI. The header proves that a script of this origin sent the request.
const client = createClient<paths>({ baseUrl: '', credentials: 'same-origin' });

const header: Middleware = {
  onRequest({ request }) {
    request.headers.set('Belfry-UI', '1');
  },
  onResponse({ response }) {
    heard(response.headers.get('Date'));
  },
};
client.use(header);

export const api = client;

type Result<T> = { data?: T; error?: unknown; response: Response };

/** The data of a call, or an ApiProblem. */
export async function unwrap<T>(call: Promise<Result<T>>): Promise<T> {
  let result: Result<T>;
  try {
    result = await call;
  } catch (e) {
    if (e instanceof DOMException && e.name === 'AbortError') throw e;
    throw unreachable();
  }
  if (result.response.ok) return result.data as T;
  throw problemOf(result.response, result.error);
}

function problemOf(response: Response, body: unknown): ApiProblem {
  const retry = Number(response.headers.get('Retry-After') ?? 0) * 1000;
  return new ApiProblem(response.status, (body ?? {}) as Record<string, unknown>, Number.isFinite(retry) ? retry : 0);
}

/** An answer of the node, or the problem that there is none. */
async function ask(path: string, init: RequestInit, signal?: AbortSignal): Promise<Response> {
  try {
    const response = await fetch(path, {
      ...init, credentials: 'same-origin', headers: { 'Belfry-UI': '1', ...init.headers }, signal: signal ?? null,
    });
    heard(response.headers.get('Date'));
    return response;
  } catch (e) {
    if (e instanceof DOMException && e.name === 'AbortError') throw e;
    throw unreachable();
  }
}

// Snapshots carry an ETag: if nothing has changed, the answer is 304 and the old data stays.
const snapshots = new Map<string, { etag: string; data: unknown }>();
const maxSnapshots = 50;

/** Forgets what was read, when another user has logged in. */
export const forgetSnapshots = (): void => snapshots.clear();

/** GET with If-None-Match, for answers with an ETag. */
export async function snapshot<T>(path: string, signal?: AbortSignal): Promise<T> {
  const old = snapshots.get(path);
  const headers = { Accept: 'application/json', ...(old ? { 'If-None-Match': old.etag } : {}) };
  const response = await ask(path, { headers }, signal);
  if (response.status === 304 && old) return old.data as T;
  if (!response.ok) throw problemOf(response, await response.json().catch(() => undefined));
  const data = (await response.json()) as T;
  const etag = response.headers.get('ETag');
  if (etag) {
    if (snapshots.size >= maxSnapshots) snapshots.clear();
    snapshots.set(path, { etag, data });
  }
  return data;
}

/** The text of an answer, for JSON whose numbers must stay exact. */
export async function text(path: string, signal?: AbortSignal): Promise<string> {
  const response = await ask(path, {}, signal);
  if (!response.ok) throw problemOf(response, await response.json().catch(() => undefined));
  return response.text();
}

/** Sends a body as it is written, for JSON whose numbers must stay exact and for NDJSON. The answer is a text. */
export async function send(
  method: 'POST' | 'PUT', path: string, body: string, headers: Record<string, string> = {}, signal?: AbortSignal,
): Promise<string> {
  const response = await ask(path, { method, body, headers: { 'Content-Type': 'application/json', ...headers } }, signal);
  const answer = await response.text();
  if (response.ok) return answer;
  let problem: unknown;
  try {
    problem = JSON.parse(answer);
  } catch {
    problem = undefined; // of a proxy
  }
  throw problemOf(response, problem);
}

/** A random key for Idempotency-Key. crypto.randomUUID needs a secure context, and a node may be without TLS. */
export const idempotencyKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
