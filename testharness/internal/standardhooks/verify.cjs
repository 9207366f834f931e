// Verifies requests with the libraries of Standard Webhooks. Input: [{secret, headers, body_base64, now}].
// Output: for each library, a list of true or false.
const fs = require('node:fs');

const libraries = { standardwebhooks: require('standardwebhooks').Webhook, svix: require('svix').Webhook };
const requests = JSON.parse(fs.readFileSync(0, 'utf8'));
const verdicts = {};
for (const [name, Webhook] of Object.entries(libraries)) {
  verdicts[name] = requests.map(({ secret, headers, body_base64: body, now }) => {
    Date.now = () => now * 1000;
    try {
      new Webhook(secret).verify(Buffer.from(body, 'base64').toString('utf8'), headers);
      return true;
    } catch {
      return false;
    }
  });
}
process.stdout.write(JSON.stringify(verdicts));
