// A publisher on Cloudflare Workers.
import { SignatureError, Verge, verifyEvent } from '@verge-id/sdk';

export default {
  async fetch(request, env) {
    const verge = new Verge({ baseUrl: env.VERGE_URL, secretKey: env.VERGE_SECRET_KEY });
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/start': {
        const started = await verge.start({ integration_id: env.VERGE_INTEGRATION, callback_url: env.CALLBACK_URL });
        return Response.json(started);
      }
      case '/return':
        return Response.json(await verge.validate(url.searchParams.get('result_token')));
      case '/session':
        return Response.json(await verge.reconcile(url.searchParams.get('session_id')));
    }
    try {
      return Response.json(await verifyEvent(env.WEBHOOK_SECRET, request.headers, await request.text()));
    } catch (error) {
      return new Response(String(error), { status: error instanceof SignatureError ? 401 : 500 });
    }
  },
};
