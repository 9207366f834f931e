// A shop that sells to adults, with Express. README.md in the parent folder explains how to run it.
import { randomBytes } from 'node:crypto';
import { ApiError, SignatureError, Verge, verifyEvent } from '@verge-id/sdk';
import express from 'express';

const { VERGE_URL, VERGE_SECRET_KEY, VERGE_INTEGRATION, WEBHOOK_SECRET, PORT = '3000' } = process.env;
const origin = `http://localhost:${PORT}`;
const verge = new Verge({ baseUrl: VERGE_URL, secretKey: VERGE_SECRET_KEY });

// The shop's memory, by the id in a visitor's cookie. A real shop has its own sessions and a database.
const visitors = new Map();

const app = express();

// Webhooks come first: the signature is over the raw bytes, so they must not be parsed before.
const seen = new Set();
app.post('/hook', express.raw({ type: '*/*', limit: '64kb' }), async (request, response) => {
  const event = await verifyEvent(WEBHOOK_SECRET, request.headers, request.body ?? '');
  if (!seen.has(event.idempotency_key)) {
    seen.add(event.idempotency_key);
    console.log('event', event.type, event.session_id);
  }
  response.sendStatus(204);
});

// visitor returns the shop's data about the browser, and sets a cookie in a new browser.
function visitor(request, response) {
  const id = /(?:^|; )shop=([0-9a-f]{32})/.exec(request.get('Cookie') ?? '')?.[1];
  if (visitors.has(id)) return visitors.get(id);
  const fresh = { id: randomBytes(16).toString('hex'), states: new Map(), verified: false };
  visitors.set(fresh.id, fresh);
  // Lax, because the browser comes back from another site.
  response.cookie('shop', fresh.id, { httpOnly: true, sameSite: 'lax' });
  return fresh;
}

app.get('/', (request, response) => {
  const { verified } = visitor(request, response);
  response.send(!verified
    ? '<h1>For adults</h1><form method="post" action="/verify"><button>Verify my age</button></form>'
    : '<h1>Welcome</h1><p>Your age is verified.</p>');
});

app.post('/verify', async (request, response) => {
  const who = visitor(request, response);
  const state = randomBytes(16).toString('hex');
  const started = await verge.start({ integration_id: VERGE_INTEGRATION, callback_url: `${origin}/return`, state });
  who.states.set(state, started.session_id);
  response.redirect(303, started.redirect_url);
});

app.get('/return', async (request, response) => {
  const who = visitor(request, response);
  const { state, session_id: session, result_token: token } = request.query;
  // Only this browser's own verification counts, and only once.
  if (typeof state !== 'string' || who.states.get(state) !== session) return response.status(400).send('Not yours.');
  who.states.delete(state);
  const result = await verge.validate(String(token));
  if (!result.verified || result.session_id !== session) return response.status(403).send('Not verified.');
  who.verified = true;
  response.redirect(303, '/');
});

// Express passes the errors of handlers to this function.
app.use((error, _request, response, _next) => {
  if (error instanceof SignatureError) return response.status(401).send(error.message);
  console.error(error);
  const code = error instanceof ApiError ? error.code : 'no response';
  response.status(502).send(`The verification is not possible: ${code}.`);
});

app.listen(Number(PORT), 'localhost', () => console.log(`open ${origin}/`));
