import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** For Java 11 and later. */
final class CheckStandard {
    /**
     * Returns the reason to reject a request, or null. id, timestamp and signatures are its headers webhook-id,
     * webhook-timestamp and webhook-signature, body is its raw bytes, and now is in Unix seconds.
     */
    static String check(String secret, String id, String timestamp, String signatures, byte[] body, long now)
            throws GeneralSecurityException {
        if (secret == null || !secret.matches("whsec_[A-Za-z0-9+/]{43}=")) {
            return "the secret is not whsec_ and the base64 of 32 bytes";
        }
        if (id == null || id.isEmpty() || id.length() > 256) return "webhook-id is missing or too long";
        if (timestamp == null || !timestamp.matches("[0-9]{1,12}")) return "webhook-timestamp is not a time";
        if (signatures == null || signatures.length() > 1024) return "webhook-signature is missing or too long";

        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.substring("whsec_".length())), "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
        String expected = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
        // There are two signatures while a change of the secret is staged.
        boolean found = false;
        for (String given : signatures.split(" ")) {
            found |= MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8),
                    expected.getBytes(StandardCharsets.UTF_8));
        }
        if (!found) return "no signature matches";

        return Math.abs(now - Long.parseLong(timestamp)) > 300 ? "the signature is too old" : null;
    }
}
