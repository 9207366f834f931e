// Runs the calls in its input with the SDK of Node.js, and prints the outcomes. sdk_test.go has the cases.
import { readFileSync } from 'node:fs';
import { ApiError, SignatureError, Verge, VergeError, verifyEvent, verifySignature } from '@verge-id/sdk';

async function outcome(run) {
  try {
    return { result: await run() };
  } catch (error) {
    if (!(error instanceof VergeError)) throw error;
    const { name: kind, status, code, requestId, retryAfter, sessionId, details, step } = error;
    return { kind, status, code, request_id: requestId, retry_after: retryAfter, session_id: sessionId,
      fields: details?.map(({ field }) => field), step, leaks: `${error} ${error.cause}`.includes('svc_sk_') };
  }
}

function call({ base_url: baseUrl, secret_key: secretKey, public_key: publicKey, timeout, does, args }) {
  const key = publicKey ? { publicKey } : { secretKey };
  const verge = new Verge({ baseUrl, timeout: timeout * 1000, maxWait: 1500, ...key });
  if (does === 'start') return verge.start(args);
  return does === 'validate' ? verge.validate(args.token) : verge.reconcile(args.session);
}

// The service asks to wait for an hour, and the caller aborts during the wait.
async function aborted() {
  const controller = new AbortController();
  const fetch = async () => {
    setTimeout(() => controller.abort(), 10);
    return new Response('', { status: 503, headers: { 'Retry-After': '3600' } });
  };
  const baseUrl = new URL('https://verify.example.com');
  const verge = new Verge({ baseUrl, secretKey: 'svc_sk_1', maxWait: 4e6, fetch });
  return verge.reconcile('svc_sess_1', { signal: controller.signal }).catch(({ name }) => name);
}

const { requests, calls } = JSON.parse(readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify({
  requests: await Promise.all(requests.map(({ secret, headers, body, now, tolerance }) => outcome(() =>
    verifySignature(secret, headers, Buffer.from(body, 'base64'), tolerance ? { now, tolerance } : { now })))),
  calls: await Promise.all(calls.map((each) => outcome(async () => call(each)))),
  event: await outcome(() => verifyEvent(['whsec_other', requests[0].secret], new Headers(
    Object.entries(requests[0].headers).map(([name, lines]) => [name, String(lines)])),
  Buffer.from(requests[0].body, 'base64').toString(), { now: requests[0].now })),
  no_secret: await outcome(() => verifySignature(undefined, requests[0].headers, '')),
  white_secret: await verifySignature(`${requests[0].secret}\n`, requests[0].headers, '').catch(String),
  parsed_body: await outcome(() => verifyEvent(requests[0].secret, requests[0].headers, {})),
  aborted: await aborted(),
  refused: await new Verge({ baseUrl: 'http://127.0.0.1:1', secretKey: 'svc_sk_1', retries: 0 })
    .reconcile('svc_sess_1').catch(String), // Node.js rejects this port, and the cause has the reason
}));
