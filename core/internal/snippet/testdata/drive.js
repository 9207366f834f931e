const { vectors } = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
for (const v of vectors) {
  const wrong = check(v.secret, v.signature ?? undefined, v.timestamp ?? undefined, Buffer.from(v.body, 'base64'), v.now);
  console.log(wrong ? 'refused' : 'accepted');
}
