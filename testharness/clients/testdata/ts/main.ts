// A publisher's server in TypeScript, with the types that openapi-typescript generates.
import createClient from 'openapi-fetch';
import { createInterface } from 'node:readline/promises';
import type { components, paths } from './verge';

type Event = components['schemas']['Event'];

const client = createClient<paths>({
  baseUrl: process.env.BASE_URL,
  headers: { Authorization: `Bearer ${process.env.SECRET_KEY}` },
});

// must returns the data of a response, or ends the program with the error. what is the name of the request.
function must<T>(what: string, response: { data?: T; error?: unknown }): T {
  if (response.data === undefined) throw new Error(`${what}: ${JSON.stringify(response.error)}`);
  return response.data;
}

// The type narrows the union: each case has only the data of its own event.
function words(event: Event): string {
  switch (event.type) {
    case 'verification.started': return `started ${event.data.status}`;
    case 'verification.completed': return `completed ${event.data.result.level}`;
    case 'verification.failed': return `failed ${event.data.failure.code}`;
    case 'verification.expired': return `expired ${event.data.status}`;
    case 'verification.cancelled': return `cancelled ${event.data.status}`;
  }
}

async function main() {
  const state = 's-1';
  const started = must('start', await client.POST('/api/v1/verify/start', {
    body: { integration_id: process.env.INTEGRATION_ID!, callback_url: 'https://shop.example/return', state },
  }));
  console.log(started.redirect_url);

  const input = createInterface({ input: process.stdin });
  const back = new URL((await input[Symbol.asyncIterator]().next()).value);
  input.close();
  if (back.searchParams.get('state') !== state) throw new Error('the state is another');
  const body = { result_token: back.searchParams.get('result_token')! };
  const result = must('validate', await client.POST('/api/v1/verify/validate', { body }));
  const again = await client.POST('/api/v1/verify/validate', { body });
  const session = must('reconcile', await client.GET('/api/v1/verify/sessions/{sessionId}', {
    params: { path: { sessionId: started.session_id } },
  }));
  const { examples } = must('examples', await client.GET('/docs/events.json'));
  console.log(JSON.stringify({
    verified: result.verified, level: result.level, age: result.challenge_age,
    again: again.error?.code, status: session.status, events: examples.map((e) => words(e.event)),
  }));
}

main();
