// A wallet of @openid4vc/openid4vp and @owf/mdoc that a browser calls by the Digital Credentials API, with OpenID4VP.
// In: origin (of the page), data (of the request), and the input of documentOf (wallet.mjs). Out: data (of the
// response); clientId, responseMode and verifierInfo of the request; or error, if the wallet does not accept the
// request.
import { SessionTranscript } from "@owf/mdoc";
import { context, input, output } from "./context.mjs";
import { presentSDJWT } from "./sdjwt.mjs";
import { answerTo, askedOf, client, keyOf, respond } from "./wallet.mjs";

const given = await input();
try {
  const resolved = await client.resolveOpenId4vpAuthorizationRequest({
    authorizationRequestPayload: given.data,
    origin: given.origin,
  });
  const request = resolved.authorizationRequestPayload;
  const asked = askedOf(given, resolved.dcql.query);
  const { key, jwkThumbprint } = await keyOf(request);
  const present = async () => {
    if (given.sdJWTClaims) {
      return presentSDJWT(given, asked, { aud: `origin:${given.origin}`, nonce: request.nonce, iat: given.now });
    }
    const sessionTranscript = await SessionTranscript.forOid4VpDcApi(
      { origin: given.origin, nonce: request.nonce, jwkThumbprint },
      context,
    );
    return respond(given, asked, sessionTranscript);
  };
  const made = await answerTo(request, asked, await present(), key, given.origin);
  output({
    data: made.jarm ? { response: made.jarm.responseJwt } : made.authorizationResponsePayload,
    clientId: request.client_id,
    responseMode: request.response_mode,
    verifierInfo: request.verifier_info,
  });
} catch (error) {
  output({ error: String(error) });
}
