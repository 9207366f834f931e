// Verifies DeviceResponses with @auth0/mdl, whose clock is the machine's.
// In: an array of response, transcript and root (hex). Out: one of error and elements.
import mdl from "@auth0/mdl";
import { cborDecode, cborEncode, DataItem } from "@auth0/mdl/lib/cbor/index.js";
import { X509Certificate } from "node:crypto";
import { bytes, input, output } from "./context.mjs";

async function verify({ response, transcript, root }) {
  const elements = {};
  try {
    const verifier = new mdl.Verifier([new X509Certificate(bytes(root)).toString()]);
    const found = await verifier.verify(bytes(response), {
      encodedSessionTranscript: cborEncode(DataItem.fromData(cborDecode(bytes(transcript)))),
    });
    for (const items of Object.values(found.documents[0].issuerSigned.nameSpaces)) {
      for (const item of items) elements[item.elementIdentifier] = item.elementValue;
    }
    return { error: "", elements };
  } catch (e) {
    return { error: String(e), elements };
  }
}
output(await Promise.all((await input()).map(verify)));
