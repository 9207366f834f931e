// The check of a webhook, as /docs has it.
const crypto = require('node:crypto');
// check returns what is wrong with a request, or undefined if it is good. signature and timestamp are its headers
// X-Service-Signature and X-Service-Timestamp, body is a Buffer with its raw bytes, and now is in Unix seconds.
function check(secret, signature, timestamp, body, now) {
  if (!secret) return 'there is no secret';
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

  if (timestamp !== undefined && timestamp !== t) return 'X-Service-Timestamp is not t';

  // secret is the one of this integration; body is a Buffer with the raw bytes.
  const expected = crypto.createHmac('sha256', secret).update(t + '.').update(body).digest();

  const given = Buffer.from(v1, 'hex');
  if (!crypto.timingSafeEqual(given, expected)) return 'the signature does not match';

  // now is in Unix seconds, Date.now() / 1000. t is that of X-Service-Signature.
  if (Math.abs(Math.floor(now) - Number(t)) > 300) return 'the signature is too old';
}

module.exports = check;
