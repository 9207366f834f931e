// A webhook receiver for Node 18 and later, without a framework.
// WEBHOOK_SECRET is the secret of the integration; PORT is the port to listen on.
// [check]
const crypto = require('node:crypto');
// [/check]
const http = require('node:http');

const secret = process.env.WEBHOOK_SECRET;

// [check]
// check returns the reason to reject a request, or undefined. signature and timestamp are its headers
// X-Service-Signature and X-Service-Timestamp, body is a Buffer with its raw bytes, and now is in Unix seconds.
function check(secret, signature, timestamp, body, now) {
  if (!secret) return 'the secret is missing';
  if (!signature || signature.length > 1024) return 'the signature header is missing or too long';
  const fields = new Map();
  for (const element of signature.split(',')) {
    const [, name, value] = element.match(/^[ \t]*([^=]*)=(.*?)[ \t]*$/) ?? [];
    if (name === undefined || fields.has(name)) return 'the signature header is malformed';
    fields.set(name, value);
  }
  const t = fields.get('t') ?? '';
  const v1 = fields.get('v1') ?? '';
  if (!/^(0|[1-9]\d{0,11})$/.test(t)) return 't of the signature header is not a time';
  if (!/^[0-9a-f]{64}$/i.test(v1)) return 'v1 of the signature header is not 64 hexadecimal digits';

  // [differing_timestamp]
  if (timestamp !== undefined && timestamp !== t) return 'X-Service-Timestamp differs from t';
  // [end]

  // [good]
  // secret is the secret of this integration; body is a Buffer with the raw bytes.
  const expected = crypto.createHmac('sha256', secret).update(t + '.').update(body).digest();
  // [end]

  // [bad_signature]
  const given = Buffer.from(v1, 'hex');
  if (!crypto.timingSafeEqual(given, expected)) return 'the signature does not match';
  // [end]

  // [stale_timestamp]
  // now is in Unix seconds, Date.now() / 1000. t is from X-Service-Signature.
  if (Math.abs(Math.floor(now) - Number(t)) > 300) return 'the signature is too old';
  // [end]
}
// [/check]

async function receive(request, response) {
  // [altered_body]
  // Use the raw bytes, before anything parses them.
  // Express: app.post('/hook', express.raw({ type: '*/*' }), …) and then request.body, not express.json().
  // Next.js: Buffer.from(await request.arrayBuffer()), not await request.json().
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > 64 * 1024) return response.writeHead(413).end('the body is too long');
  }
  const body = Buffer.concat(chunks);
  // [end]

  const { 'x-service-signature': signature, 'x-service-timestamp': timestamp } = request.headers;
  const wrong = check(secret, signature, timestamp, body, Date.now() / 1000);
  if (wrong) return response.writeHead(401).end(wrong);

  const event = JSON.parse(body.toString('utf8'));
  // Add the event to a queue, once for each idempotency_key.
  console.log(event.type, event.idempotency_key);
  response.writeHead(204).end();
}

const server = http.createServer((request, response) => {
  // Without catch, a client that breaks off its request would end the process.
  receive(request, response).catch((error) => {
    console.error(error.message);
    response.destroy();
  });
});
server.listen(Number(process.env.PORT), '127.0.0.1');
