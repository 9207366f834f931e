const crypto = require('node:crypto');

// checkStandard returns the reason to reject a request, or undefined. id, timestamp and signatures are its headers
// webhook-id, webhook-timestamp and webhook-signature, body is a Buffer with its raw bytes, and now is in Unix seconds.
function checkStandard(secret, id, timestamp, signatures, body, now) {
  if (!/^whsec_[A-Za-z0-9+/]{43}=$/.test(secret)) return 'the secret is not whsec_ and the base64 of 32 bytes';
  if (!id || id.length > 256) return 'webhook-id is missing or too long';
  if (!/^\d{1,12}$/.test(timestamp ?? '')) return 'webhook-timestamp is not a time';
  if (!signatures || signatures.length > 1024) return 'webhook-signature is missing or too long';

  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const mac = crypto.createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64');
  const expected = Buffer.from('v1,' + mac);
  // There are two signatures while a change of the secret is staged.
  const found = signatures.split(' ').map((signature) => Buffer.from(signature))
    .some((given) => given.length === expected.length && crypto.timingSafeEqual(given, expected));
  if (!found) return 'no signature matches';

  if (Math.abs(Math.floor(now) - Number(timestamp)) > 300) return 'the signature is too old';
}
