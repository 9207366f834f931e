// @sd-jwt/sd-jwt-vc presents its own documents, one for each query, and verifies our presentations. In: the input of
// presentSDJWT, queries (of DCQL), binding (aud, nonce and iat), ours, and now. Out: theirs and verdicts.
import { input, output } from "./context.mjs";
import { presentSDJWT, verifySDJWT } from "./sdjwt.mjs";

const given = await input();
output({
  theirs: await Promise.all(given.queries.map((asked) => presentSDJWT(given, asked, given.binding))),
  verdicts: await Promise.all(
    given.ours.map((text) => verifySDJWT(text, { nonce: given.binding.nonce, now: given.binding.iat })),
  ),
});
