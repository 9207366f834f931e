// Verifies DeviceResponses with @owf/mdoc, which does not know the handover of ISO/IEC 18013-7, Annex C. In:
// an array of response, transcript, root (hex) and now (RFC 3339 or empty). Out: one of error and elements.
import { DeviceResponse, Verifier } from "@owf/mdoc";
import { bytes, context, input, output } from "./context.mjs";

async function verify({ response, transcript, root, now }) {
  const elements = {};
  try {
    await Verifier.verifyDeviceResponse(
      {
        deviceResponse: bytes(response),
        sessionTranscript: bytes(transcript),
        trustedCertificates: [bytes(root)],
        now: now ? new Date(now) : new Date(),
      },
      context,
    );
    const { issuerNamespaces } = DeviceResponse.decode(bytes(response)).documents[0].issuerSigned;
    for (const items of issuerNamespaces.issuerNamespaces.values()) {
      for (const item of items) elements[item.elementIdentifier] = item.elementValue;
    }
    return { error: "", elements };
  } catch (e) {
    return { error: String(e), elements };
  }
}
output(await Promise.all((await input()).map(verify)));
