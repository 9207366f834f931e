// Creates a signed list of trusted entities (ETSI TS 119 602) with @owf/eudi-lote. In: key (JWK of the signer, on
// P-256), chain (of the signer, base64 each), operator, sequence, issued and nextUpdate (RFC 3339), and services,
// each with entity, name, type and certificates (base64 each). A service may have a status. Out: jws.
import { base64DerToPem, ES256 } from "@owf/crypto";
import { addTrustedEntity, assertValidLoTE, createLoTE, service, signLoTE, trustedEntity } from "@owf/eudi-lote";
import { text } from "node:stream/consumers";

const given = JSON.parse(await text(process.stdin));
let lote = createLoTE({
  LoTESequenceNumber: given.sequence,
  SchemeOperatorName: [{ lang: "en", value: given.operator }],
  ListIssueDateTime: given.issued,
  NextUpdate: given.nextUpdate,
});
for (const s of given.services) {
  const built = service().name(s.name).type(s.type);
  for (const c of s.certificates) built.addCertificate(c);
  if (s.status) built.status(s.status, new Date(given.issued));
  lote = addTrustedEntity(
    lote,
    trustedEntity()
      .name(s.entity)
      .postalAddress({ StreetAddress: "Street 1", Locality: "Town", PostalCode: "1", Country: "DE" })
      .email("lists@example.com")
      .infoUri("https://example.com/about")
      .addService(built.build())
      .build(),
  );
}
assertValidLoTE(lote);
const { jws } = await signLoTE({
  lote,
  keyId: "list-signer",
  certificates: given.chain.map(base64DerToPem),
  signer: await ES256.getSigner(given.key),
});
process.stdout.write(JSON.stringify({ jws }));
