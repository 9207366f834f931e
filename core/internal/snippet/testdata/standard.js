const { vectors } = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
for (const { secret, id, timestamp, signature, body, now } of vectors) {
  const wrong = checkStandard(secret, id, timestamp, signature, Buffer.from(body, 'base64'), now);
  console.log(wrong ? 'refused' : 'accepted');
}
