// A wallet of @openid4vc/openid4vp and @owf/mdoc: it opens a link, issues itself a document with the requested
// elements, and sends its response. In: link, and the input of documentOf (wallet.mjs). Out: status and body of
// the service's response, clientId and responseMode of the request, and the algorithms that it announces.
import { SessionTranscript } from "@owf/mdoc";
import { context, input, output } from "./context.mjs";
import { presentSDJWT } from "./sdjwt.mjs";
import { answerTo, askedOf, client, keyOf, respond } from "./wallet.mjs";

const given = await input();
const parsed = client.parseOpenid4vpAuthorizationRequest({ authorizationRequest: given.link });
const resolved = await client.resolveOpenId4vpAuthorizationRequest({ authorizationRequestPayload: parsed.params });
const request = resolved.authorizationRequestPayload;
const asked = askedOf(given, resolved.dcql.query);
const { key, jwkThumbprint } = await keyOf(request);
const present = async () => {
  if (given.sdJWTClaims) {
    const binding = { aud: request.client_id, nonce: request.nonce, iat: given.now };
    return presentSDJWT(given, asked, binding);
  }
  const sessionTranscript = await SessionTranscript.forOid4Vp(
    { clientId: request.client_id, nonce: request.nonce, responseUri: request.response_uri, jwkThumbprint },
    context,
  );
  return respond(given, asked, sessionTranscript);
};
const response = await present();
const made = await answerTo(request, asked, response, key);
const sent = await client.submitOpenid4vpAuthorizationResponse({
  authorizationRequestPayload: request,
  authorizationResponsePayload: made.authorizationResponsePayload,
  jarm: made.jarm,
});
output({
  status: sent.response.status,
  body: await sent.response.text(),
  clientId: request.client_id,
  responseMode: request.response_mode,
  algorithms: request.client_metadata.vp_formats_supported.mso_mdoc.issuerauth_alg_values,
});
