// The fields of a line are as in Drive.java. The last one is the id.
public class DriveStandard {
    private static String text(String field) {
        return field.equals("-") ? null
                : new String(java.util.Base64.getDecoder().decode(field), java.nio.charset.StandardCharsets.UTF_8);
    }

    public static void main(String[] args) throws Exception {
        var in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split("\t", -1);
            byte[] body = java.util.Base64.getDecoder().decode(f[3]);
            String wrong = CheckStandard.check(
                    text(f[0]), text(f[5]), text(f[2]), text(f[1]), body, Long.parseLong(f[4]));
            System.out.println(wrong == null ? "accepted" : "refused");
        }
    }
}
