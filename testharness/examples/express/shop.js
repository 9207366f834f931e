// A shop that sells to adults, with Express. README.md in the folder above says how to run it.
const crypto = require('node:crypto');
const express = require('express');
const check = require('./check');

const { VERGE_URL, VERGE_SECRET_KEY, VERGE_INTEGRATION, WEBHOOK_SECRET, PORT = '3000' } = process.env;
const origin = `http://localhost:${PORT}`;

// What the shop remembers, by the id in a visitor's cookie. A real shop has its own sessions and a database.
const visitors = new Map();

const app = express();

// Webhooks come first: the signature is over the raw bytes, so nothing may parse them before.
const seen = new Set();
app.post('/hook', express.raw({ type: '*/*', limit: '64kb' }), (request, response) => {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  const wrong = check(WEBHOOK_SECRET, request.get('X-Service-Signature'), request.get('X-Service-Timestamp'), body,
    Date.now() / 1000);
  if (wrong) return response.status(401).send(wrong);
  const event = JSON.parse(body.toString('utf8'));
  if (!seen.has(event.idempotency_key)) {
    seen.add(event.idempotency_key);
    console.log('event', event.type, event.session_id);
  }
  response.sendStatus(204);
});

// visitor returns what the shop remembers about the browser, and gives a new browser a cookie.
function visitor(request, response) {
  const id = /(?:^|; )shop=([0-9a-f]{32})/.exec(request.get('Cookie') ?? '')?.[1];
  if (visitors.has(id)) return visitors.get(id);
  const fresh = { id: crypto.randomBytes(16).toString('hex'), states: new Map(), verified: false };
  visitors.set(fresh.id, fresh);
  // Lax, because the browser comes back from another site.
  response.cookie('shop', fresh.id, { httpOnly: true, sameSite: 'lax' });
  return fresh;
}

async function verge(path, body) {
  const response = await fetch(VERGE_URL + path, {
    method: 'POST',
    headers: { Authorization: `Bearer ${VERGE_SECRET_KEY}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { ok: response.ok, answer: await response.json() };
}

app.get('/', (request, response) => {
  const { verified } = visitor(request, response);
  response.send(!verified
    ? '<h1>For adults</h1><form method="post" action="/verify"><button>Verify my age</button></form>'
    : '<h1>Welcome</h1><p>Your age is verified.</p>');
});

app.post('/verify', async (request, response) => {
  const who = visitor(request, response);
  const state = crypto.randomBytes(16).toString('hex');
  const { ok, answer } = await verge('/api/v1/verify/start', {
    integration_id: VERGE_INTEGRATION, callback_url: `${origin}/return`, state,
  });
  if (!ok) return response.status(502).send(`The verification cannot begin: ${answer.code}.`);
  who.states.set(state, answer.session_id);
  response.redirect(303, answer.redirect_url);
});

app.get('/return', async (request, response) => {
  const who = visitor(request, response);
  const { state, session_id: session, result_token: token } = request.query;
  // Only this browser's own verification counts, and only once.
  if (typeof state !== 'string' || who.states.get(state) !== session) return response.status(400).send('Not yours.');
  who.states.delete(state);
  const { ok, answer } = await verge('/api/v1/verify/validate', { result_token: token });
  if (!ok || !answer.verified || answer.session_id !== session) {
    return response.status(403).send(`Not verified: ${answer.code}.`);
  }
  who.verified = true;
  response.redirect(303, '/');
});

app.listen(Number(PORT), 'localhost', () => console.log(`open ${origin}/`));
