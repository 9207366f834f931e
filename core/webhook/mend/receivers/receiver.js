// A webhook receiver for Node 18 and later, without a framework.
// WEBHOOK_SECRET is the secret of the integration; PORT is where to listen.
const crypto = require('node:crypto');
const http = require('node:http');

const secret = process.env.WEBHOOK_SECRET;

// check returns what is wrong with a request, or undefined if it is good.
function check(headers, body) {
  const fields = new Map();
  for (const element of String(headers['x-service-signature'] ?? '').split(',')) {
    const [, name, value] = element.match(/^\s*([^=]*)=(.*?)\s*$/) ?? [];
    if (fields.has(name)) return 'the signature header has an element twice';
    fields.set(name, value);
  }
  const t = fields.get('t') ?? '';
  const v1 = fields.get('v1') ?? '';
  if (!/^(0|[1-9]\d{0,11})$/.test(t)) return 't of the signature header is not a time';
  if (!/^[0-9a-f]{64}$/i.test(v1)) return 'v1 of the signature header is not 64 hexadecimal digits';

  // [differing_timestamp]
  const timestamp = headers['x-service-timestamp'];
  if (timestamp !== undefined && timestamp !== t) return 'X-Service-Timestamp is not t';
  // [end]

  // [good]
  // secret is the one of this integration; body is a Buffer with the raw bytes.
  const expected = crypto.createHmac('sha256', secret).update(t + '.').update(body).digest();
  // [end]

  // [bad_signature]
  const given = Buffer.from(v1, 'hex');
  if (!crypto.timingSafeEqual(given, expected)) return 'the signature does not match';
  // [end]

  // [stale_timestamp]
  const age = Math.floor(Date.now() / 1000) - Number(t);
  if (Math.abs(age) > 300) return 'the signature is too old';
  // [end]
}

const server = http.createServer(async (request, response) => {
  // [altered_body]
  // Take the bytes as they came, before anything parses them.
  // Express: app.post('/hook', express.raw({ type: '*/*' }), …) and then request.body, not express.json().
  // Next.js: Buffer.from(await request.arrayBuffer()), not await request.json().
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  // [end]

  const wrong = check(request.headers, body);
  if (wrong) return response.writeHead(401).end(wrong);

  const event = JSON.parse(body.toString('utf8'));
  // Put the event into a queue, once for each idempotency_key.
  console.log(event.type, event.idempotency_key);
  response.writeHead(204).end();
});
server.listen(Number(process.env.PORT), '127.0.0.1');
