// The standard library of Java has no JSON, so the vectors are lines of fields in base64, separated by tabs.
public class Drive {
    private static String text(String field) {
        return field.equals("-") ? null
                : new String(java.util.Base64.getDecoder().decode(field), java.nio.charset.StandardCharsets.UTF_8);
    }

    public static void main(String[] args) throws Exception {
        var in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split("\t", -1);
            byte[] body = java.util.Base64.getDecoder().decode(f[3]);
            String wrong = Check.check(text(f[0]), text(f[1]), text(f[2]), body, Long.parseLong(f[4]));
            System.out.println(wrong == null ? "accepted" : "refused");
        }
    }
}
