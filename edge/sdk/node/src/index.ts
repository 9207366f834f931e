/**
 * A client of the Verge verification API, and the verification of its webhook events. It uses `fetch` and Web
 * Cryptography alone, so it runs in Node.js 20, in Workers and, with a public key, in browsers.
 */

export type Language = 'en' | 'de' | 'es' | 'fr' | 'pt' | 'it';
export type Level = 'L1' | 'L2';
export type FailureCode = 'PROVIDER_REJECTED' | 'USER_CANCELLED' | 'TIMEOUT' | 'MAX_ATTEMPTS' | 'UNKNOWN';
export type ErrorCode =
  | 'INVALID_REQUEST' | 'INVALID_TOKEN' | 'UNAUTHORIZED' | 'FORBIDDEN' | 'NOT_FOUND' | 'METHOD_NOT_ALLOWED'
  | 'ALREADY_USED' | 'INTEGRATION_NOT_READY' | 'REQUEST_TIMEOUT' | 'EXPIRED' | 'PAYLOAD_TOO_LARGE'
  | 'URI_TOO_LONG' | 'UNSUPPORTED_MEDIA_TYPE' | 'RATE_LIMITED' | 'INTERNAL' | 'PROVIDER_UNAVAILABLE'
  | 'UNAVAILABLE';

export interface StartRequest {
  integration_id: string;
  callback_url: string;
  /** Unguessable. Store it, and compare it when the browser comes back. */
  state?: string | null;
  external_user_id?: string | null;
  language?: Language | null;
}

export interface StartResponse {
  session_id: string;
  /** Send the user's browser here, unchanged. */
  redirect_url: string;
  expires_at: string;
}

export interface ValidateResponse {
  valid: boolean;
  verified: boolean;
  level: Level;
  challenge_age: number;
  session_id: string;
  integration_id: string;
  validated_at: string;
}

export interface Session {
  session_id: string;
  status: 'PENDING' | 'COMPLETED' | 'FAILED' | 'EXPIRED';
  verified: boolean | null;
  failure_code: FailureCode | null;
  failure_reason: string | null;
  level: Level;
  challenge_age: number;
  completed_at: string | null;
  expires_at: string;
  result_available: boolean;
}

export interface ErrorDetail {
  field: string;
  code: 'required' | 'type' | 'format' | 'length' | 'value' | 'conflict';
  message: string;
}

interface Envelope<Type extends string, Data> {
  id: string;
  type: Type;
  created_at: string;
  schema_version: '2026-01-07';
  publisher_id: string;
  /** The UUID with the prefix `int_`. */
  integration_id: string;
  session_id: string;
  /** True if a test of the webhook sent it. */
  test: boolean;
  /** Drop events whose key you have seen. */
  idempotency_key: string;
  data: Data;
}

interface Given {
  external_user_id?: string;
  publisher_state?: string;
  /** Only in a test event. */
  message?: string;
}

export type Event =
  | Envelope<'verification.started', { status: 'started'; expires_at: string; message?: string }>
  | Envelope<'verification.completed',
    Given & { status: 'completed'; result: { verified: boolean; level: Level; challenge_age: number } }>
  | Envelope<'verification.failed', Given & { status: 'failed'; failure: { code: FailureCode; message: string } }>
  | Envelope<'verification.expired', { status: 'expired'; expires_at: string; message?: string }>
  | Envelope<'verification.cancelled', { status: 'cancelled'; message?: string }>
  /** An alert to the `alert_url`. It belongs to no session. */
  | Omit<Envelope<'webhook.failing', { status: 'failing'; since: string }>, 'session_id' | 'test'>
    & { session_id?: never; test: false };

/** The class of all errors of this package. */
export class VergeError extends Error { override name = 'VergeError'; }

/** The service returned an error. Branch on `code`, never on the message. */
export class ApiError extends VergeError {
  override name = 'ApiError';
  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** Absent if the response is not one of the service, such as the error page of a proxy. */
    readonly code: ErrorCode | undefined,
    message: string,
    /** Name it when you ask the operator for help. */
    readonly requestId: string | undefined,
    readonly details: readonly ErrorDetail[] = [],
    /** The session that failed, with the code `PROVIDER_UNAVAILABLE`. */
    readonly sessionId?: string,
    /** How many seconds to wait before the next request. */
    readonly retryAfter?: number,
  ) {
    super(message);
  }
}

/** No complete response came: a network error, or the time limit. `cause` has the reason. */
export class ConnectionError extends VergeError { override name = 'ConnectionError'; }

/** A webhook request is not authentic, or it is too old. Respond with 401. */
export class SignatureError extends VergeError {
  override name = 'SignatureError'; readonly status = 401;
  /** `step` is the step of the algorithm in the documentation, 1 to 6. */
  constructor(readonly step: number, message: string) {
    super(message);
  }
}

export interface Options {
  /** The address of the service, without a path, such as `https://verify.example.com`. */
  baseUrl: string | URL;
  /** For servers only: `svc_sk_…`. */
  secretKey?: string;
  /** For pages, which can start only: `svc_pk_…`. */
  publicKey?: string;
  /** Milliseconds for one attempt. Default: 10,000. */
  timeout?: number;
  /** How many times a request may be repeated. Default: 2. */
  retries?: number;
  /** The longest wait before a repetition, in milliseconds. Default: 10,000. */
  maxWait?: number;
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Default: a random key, the same for all repetitions of this call. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

const maxResponse = 64 * 1024;
const api = '/api/v1/verify/';

export class Verge {
  readonly #base: string;
  readonly #secretKey: string | undefined;
  readonly #publicKey: string | undefined;
  readonly #timeout: number;
  readonly #retries: number;
  readonly #maxWait: number;
  readonly #fetch: typeof fetch;

  constructor(options: Options) {
    const { secretKey, publicKey, timeout = 10_000, retries = 2, maxWait = 10_000, baseUrl } = options;
    const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
    const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$|\.localhost$/.test(url?.hostname ?? '');
    const safe = url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback);
    if (!url || !safe) throw new VergeError(`baseUrl must be https://…, or http:// with a loopback host: ${baseUrl}`);
    if (url.href.replace(/\/+$/, '') !== url.origin) throw new VergeError(`baseUrl must be just ${url.origin}`);
    [this.#secretKey, this.#publicKey] = [keyOf(secretKey), keyOf(publicKey)];
    if (!this.#secretKey === !this.#publicKey) throw new VergeError('give either secretKey or publicKey');
    if (this.#secretKey && 'document' in globalThis) throw new VergeError('use publicKey in a page, not secretKey');
    [this.#base, this.#timeout, this.#retries, this.#maxWait] = [url.origin, timeout, retries, maxWait];
    // Workers and browsers reject a fetch that is called as a method of another object.
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Starts a session. Send the browser to `redirect_url`. */
  start(request: StartRequest, call: CallOptions = {}): Promise<StartResponse> {
    return this.#send('POST', 'start', { ...request, public_key: this.#publicKey }, call);
  }

  /** Exchanges a result token, once. Accept the result only if its `session_id` is the one of `start`. */
  validate(resultToken: string, call: CallOptions = {}): Promise<ValidateResponse> {
    return this.#send('POST', 'validate', { result_token: resultToken }, call);
  }

  /** Returns the state of a session. It is for recovery, and replaces neither events nor `validate`. */
  reconcile(sessionId: string, call: CallOptions = {}): Promise<Session> {
    return this.#send('GET', `sessions/${encodeURIComponent(sessionId)}`, undefined, call);
  }

  async #send<T>(method: string, path: string, body: unknown, call: CallOptions): Promise<T> {
    if (this.#publicKey !== undefined && path !== 'start') throw new VergeError('a public key can only start');
    const headers: Record<string, string> = {};
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    if (this.#secretKey !== undefined) headers['Authorization'] = `Bearer ${this.#secretKey}`;
    // A start with a public key has no idempotency key, because all visitors would share it.
    const repeatable = this.#publicKey === undefined;
    if (repeatable && body !== undefined) headers['Idempotency-Key'] = call.idempotencyKey ?? crypto.randomUUID();
    const init: RequestInit = { method, headers, redirect: 'manual' };
    if (body !== undefined) init.body = JSON.stringify(body);
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#once<T>(this.#base + api + path, init, call.signal);
      } catch (error) {
        call.signal?.throwIfAborted();
        const wait = waitBefore(error, attempt, repeatable);
        if (wait === undefined || wait > this.#maxWait || attempt >= this.#retries) throw error;
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, wait);
          call.signal?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
        }); // the next attempt throws the reason of the signal
      }
    }
  }

  async #once<T>(url: string, init: RequestInit, signal: AbortSignal | undefined): Promise<T> {
    const limit = AbortSignal.timeout(this.#timeout);
    let response: Response, text: string;
    try {
      response = await this.#fetch(url, { ...init, signal: signal ? AbortSignal.any([limit, signal]) : limit });
      text = await textOf(response);
    } catch (cause) {
      const why = (cause as { cause?: { code?: string } }).cause; // Node.js has the reason there
      throw new ConnectionError(`no response from ${new URL(url).origin}: ${why?.code ?? why ?? cause}`, { cause });
    }
    let answer: Record<string, unknown> | undefined;
    try {
      const parsed: unknown = JSON.parse(text);
      if (parsed instanceof Object) answer = parsed as Record<string, unknown>;
    } catch {} // The error below names it.
    if (response.status === 200 && answer) return answer as T;
    throw errorOf(response, answer);
  }
}

/** Returns a key without the white space of its file or variable. No error contains the key. */
function keyOf(key: string | undefined): string | undefined {
  if (!/^[!-~]*$/.test(key?.trim() ?? '')) throw new VergeError('the key has a character that no key has');
  return key?.trim() || undefined;
}

function errorOf(response: Response, answer: Record<string, unknown> | undefined): ApiError {
  // An error of the service has its code twice. A proxy may respond with other JSON.
  const ours = typeof answer?.code === 'string' && answer.code === answer.error_code;
  const { code, error, details, session_id: session } = (ours ? answer : {}) as {
    code?: ErrorCode; error?: string; details?: ErrorDetail[]; session_id?: string;
  };
  const after = Number(response.headers.get('Retry-After') ?? NaN);
  return new ApiError(response.status, code, error ?? `HTTP status ${response.status}, not a response of Verge`,
    response.headers.get('X-Request-Id') ?? undefined, details, session, after >= 0 ? after : undefined);
}

/** Returns the milliseconds before a repetition, or undefined if the request must not be repeated. */
function waitBefore(error: unknown, attempt: number, repeatable: boolean): number | undefined {
  const backoff = 250 * 2 ** attempt * (0.5 + Math.random());
  if (error instanceof ConnectionError) return repeatable ? backoff : undefined;
  if (!(error instanceof ApiError)) return undefined;
  // With 429 and 503 nothing was granted. A proxy's error leaves that open.
  const nothingGranted = error.code === 'RATE_LIMITED' || error.code === 'UNAVAILABLE';
  const ofProxy = error.code === undefined && [429, 502, 503, 504].includes(error.status);
  if (!nothingGranted && !(ofProxy && repeatable)) return undefined;
  return Math.max(backoff, (error.retryAfter ?? 0) * 1000);
}

async function textOf(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (!reader) return '';
  const decoder = new TextDecoder();
  let text = '';
  for (let size = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > maxResponse) {
      await reader.cancel();
      throw new Error(`the response is longer than ${maxResponse} bytes`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** The headers of a request: `Headers`, or the map of a framework. */
export type HeadersLike =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface VerifyOptions {
  /** How far the signature's time may be from `now`, in seconds. Default: 300. */
  tolerance?: number;
  /** Unix seconds. Default: the clock. */
  now?: number;
}

/**
 * Verifies a webhook request and returns its event. `body` is the raw body, before anything has parsed it. Give
 * several secrets while you change them. It throws a SignatureError if none of them fits: respond with 401.
 */
export async function verifyEvent(
  secret: string | readonly string[], headers: HeadersLike, body: string | Uint8Array, options: VerifyOptions = {},
): Promise<Event> {
  await verifySignature(secret, headers, body, options);
  try {
    return JSON.parse(typeof body === 'string' ? body : new TextDecoder().decode(body)) as Event;
  } catch (cause) {
    throw new VergeError('the signed body is not JSON', { cause });
  }
}

/** Does the same without reading the body. */
export async function verifySignature(
  secret: string | readonly string[], headers: HeadersLike, body: string | Uint8Array, options: VerifyOptions = {},
): Promise<void> {
  const bytes = typeof body === 'string' ? utf8(body) : body;
  if (!ArrayBuffer.isView(bytes)) throw new VergeError('body must be the raw body: a string or a Uint8Array');
  const { t, v1 } = parseSignature(one(headers, 'x-service-signature', 1024) ?? '');
  const timestamp = one(headers, 'x-service-timestamp', 1024) ?? t;
  if (timestamp !== t) throw new SignatureError(2, 'X-Service-Timestamp differs from t');
  const secrets = [secret].flat();
  if (secrets.length === 0 || !secrets.every(Boolean)) throw new SignatureError(4, 'no webhook secret given');
  let failed: SignatureError | undefined;
  for (const each of secrets) {
    failed = (await hmacIs(utf8(each), v1, `${t}.`, bytes)) ? await standardProblem(each, headers, t, bytes)
      : new SignatureError(5, `v1 does not match: ${each === each.trim() ? 'check the secret, and that body is the '
        + 'raw body' : 'the secret has white space at its ends'}`);
    if (!failed) break;
  }
  if (failed) throw failed;
  const { tolerance = 300, now = Date.now() / 1000 } = options;
  if (!(Math.abs(Math.floor(now) - Number(t)) <= tolerance)) {
    throw new SignatureError(6, `t is more than ${tolerance} s from the clock`);
  }
}

function parseSignature(header: string): { t: string; v1: Bytes } {
  const fields = new Map<string, string>();
  for (const element of header.split(',')) {
    const [, name, value] = /^[ \t]*([^=]*)=(.*?)[ \t]*$/.exec(element) ?? [];
    if (name === undefined || value === undefined || fields.has(name)) {
      throw new SignatureError(1, 'X-Service-Signature is missing or malformed');
    }
    fields.set(name, value);
  }
  const [t, v1] = [fields.get('t') ?? '', fields.get('v1') ?? ''];
  if (!/^(0|[1-9]\d{0,11})$/.test(t) || !/^[0-9a-f]{64}$/i.test(v1)) {
    throw new SignatureError(1, 'X-Service-Signature has no valid t or v1');
  }
  return { t, v1: Uint8Array.from(v1.match(/../g)!, (pair) => parseInt(pair, 16)) };
}

type Bytes = Uint8Array<ArrayBuffer>;

/** 32 bytes in base64. The last digit has four bits. */
const base64Of32 = '[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=';

/** Returns what is wrong with the headers of Standard Webhooks, if the request and the secret have them. */
async function standardProblem(
  secret: string, headers: HeadersLike, t: string, body: Uint8Array,
): Promise<SignatureError | undefined> {
  if (!new RegExp(`^whsec_${base64Of32}$`).test(secret)) return undefined;
  const id = one(headers, 'webhook-id', 256);
  const timestamp = one(headers, 'webhook-timestamp', 12);
  const signatures = one(headers, 'webhook-signature', 1024);
  if (id === undefined && timestamp === undefined && signatures === undefined) return undefined;
  if (!id || !timestamp || !signatures) return new SignatureError(1, 'a header of Standard Webhooks is missing');
  if (timestamp !== t) return new SignatureError(2, 'webhook-timestamp differs from t');
  for (const signature of signatures.split(' ')) {
    if (new RegExp(`^v1,${base64Of32}$`).test(signature) &&
      (await hmacIs(base64(secret.slice(6)), base64(signature.slice(3)), `${id}.${t}.`, body))) return undefined;
  }
  return new SignatureError(5, 'no signature in webhook-signature matches');
}

async function hmacIs(key: Bytes, given: Bytes, prefix: string, body: Uint8Array): Promise<boolean> {
  const signed = new Uint8Array([...utf8(prefix), ...body]);
  const hmac = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', key, hmac, false, ['verify']);
  return crypto.subtle.verify('HMAC', imported, given, signed); // compares in constant time
}

/** Returns the value of a header that may occur once. */
function one(headers: HeadersLike, name: string, max: number): string | undefined {
  let values: string[];
  if (typeof headers.get === 'function') {
    const value = headers.get(name);
    values = typeof value === 'string' ? [value] : [];
  } else {
    values = Object.entries(headers).filter(([key]) => key.toLowerCase() === name)
      .flatMap(([, value]) => (value === undefined ? [] : value)) as string[];
  }
  if (values.length > 1 || (values[0]?.length ?? 0) > max) {
    throw new SignatureError(1, `${name} occurs more than once or is too long`);
  }
  return values[0];
}

const utf8 = (text: string): Bytes => new TextEncoder().encode(text) as Bytes;
const base64 = (text: string): Bytes => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
