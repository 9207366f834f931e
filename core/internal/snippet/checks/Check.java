import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** For Java 17 and later. Servlets: request.getInputStream().readAllBytes(), not getReader(). Spring: byte[] body. */
final class Check {
    /**
     * Returns the reason to reject a request, or null. signature and timestamp are its headers
     * X-Service-Signature and X-Service-Timestamp, body is its raw bytes, and now is in Unix seconds.
     */
    static String check(String secret, String signature, String timestamp, byte[] body, long now)
            throws GeneralSecurityException {
        if (secret == null || secret.isEmpty()) return "the secret is missing";
        if (signature == null || signature.length() > 1024) return "the signature header is missing or too long";

        Map<String, String> fields = new HashMap<>();
        for (String element : signature.split(",", -1)) {
            String[] pair = element.replaceAll("^[ \t]+|[ \t]+$", "").split("=", 2);
            if (pair.length < 2 || fields.putIfAbsent(pair[0], pair[1]) != null) {
                return "the signature header is malformed";
            }
        }
        String t = fields.getOrDefault("t", "");
        String v1 = fields.getOrDefault("v1", "");
        if (!t.matches("0|[1-9][0-9]{0,11}")) return "t of the signature header is not a time";
        if (!v1.matches("[0-9a-fA-F]{64}")) return "v1 of the signature header is not 64 hexadecimal digits";
        if (timestamp != null && !timestamp.equals(t)) return "X-Service-Timestamp differs from t";

        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
        mac.update((t + ".").getBytes(StandardCharsets.UTF_8));
        byte[] expected = mac.doFinal(body);
        if (!MessageDigest.isEqual(HexFormat.of().parseHex(v1), expected)) return "the signature does not match";

        if (Math.abs(now - Long.parseLong(t)) > 300) return "the signature is too old";
        return null;
    }
}
