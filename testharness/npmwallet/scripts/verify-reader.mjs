// Verifies the readerAuth of a request by org-iso-mdoc with @owf/mdoc. That library does not know the handover of
// ISO/IEC 18013-7, Annex C, so the text that the reader has signed is composed here from the bytes that were sent. In:
// an array of request and transcript (hex). Out: one of good, signer (hex of the certificate) and elements.
import { cborDecode, cborEncode, DataItem, DeviceRequest } from "@owf/mdoc";
import { bytes, context, hex, input, output } from "./context.mjs";

async function verify({ request, transcript }) {
  const [{ readerAuth, itemsRequest }] = DeviceRequest.decode(bytes(request)).docRequests;
  const sent = cborDecode(bytes(request)).get("docRequests")[0].get("itemsRequest");
  const signed = ["ReaderAuthentication", cborDecode(bytes(transcript)), sent];
  readerAuth.detachedPayload = cborEncode(DataItem.fromData(signed));
  const chain = readerAuth.x5chain ?? readerAuth.certificateChain;
  const key = context.x509.getPublicKey({ certificate: chain[0] });
  return {
    good: await readerAuth.verifySignature({ key }, context),
    signer: hex(chain[0]),
    elements: [...itemsRequest.namespaces.values()].flatMap((asked) => [...asked.keys()]),
  };
}
output(await Promise.all((await input()).map(verify)));
