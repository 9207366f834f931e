// Issues a document with @auth0/mdl, and responds to a request for its elements with that library: for
// age_over_NN it may send another age_over that is sufficient. In: docType, namespace, claims, ask (names),
// transcript (hex), chain (hex each), issuerKey and deviceKey (JWK), signed and validUntil (RFC 3339). Out:
// response (hex).
import mdl from "@auth0/mdl";
import { cborDecode, cborEncode, DataItem } from "@auth0/mdl/lib/cbor/index.js";
import { bytes, hex, input, output } from "./context.mjs";

const given = await input();
const { d, ...devicePublic } = given.deviceKey;
const document = await new mdl.Document(given.docType)
  .addIssuerNameSpace(given.namespace, given.claims)
  .useDigestAlgorithm("SHA-256")
  .addValidityInfo({ signed: new Date(given.signed), validUntil: new Date(given.validUntil) })
  .addDeviceKeyInfo({ deviceKey: devicePublic })
  .sign({
    issuerPrivateKey: given.issuerKey,
    issuerCertificate: given.chain.map(bytes),
    alg: "ES256",
    kid: "issuer-key-1",
  });
const response = await mdl.DeviceResponse.from(new mdl.MDoc([document]))
  .usingPresentationDefinition({
    id: "any",
    input_descriptors: [
      {
        id: given.docType,
        format: { mso_mdoc: { alg: ["ES256"] } },
        constraints: {
          limit_disclosure: "required",
          fields: given.ask.map((name) => ({
            path: [`$['${given.namespace}']['${name}']`],
            intent_to_retain: false,
          })),
        },
      },
    ],
  })
  .usingSessionTranscriptBytes(cborEncode(DataItem.fromData(cborDecode(bytes(given.transcript)))))
  .authenticateWithSignature({ ...given.deviceKey, kid: "device-key-1" }, "ES256")
  .sign();
output({ response: hex(response.encode()) });
