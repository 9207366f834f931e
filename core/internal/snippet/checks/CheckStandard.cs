using System;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;

static class StandardWebhookCheck
{
    // Check returns the reason to reject a request, or null. id, timestamp and signatures are its headers webhook-id,
    // webhook-timestamp and webhook-signature, body is its raw bytes, and now is in Unix seconds.
    public static string Check(
        string secret, string id, string timestamp, string signatures, byte[] body, long now)
    {
        if (!Regex.IsMatch(secret ?? "", @"\Awhsec_[A-Za-z0-9+/]{43}=\z"))
            return "the secret is not whsec_ and the base64 of 32 bytes";
        if (string.IsNullOrEmpty(id) || id.Length > 256) return "webhook-id is missing or too long";
        if (!Regex.IsMatch(timestamp ?? "", @"\A[0-9]{1,12}\z")) return "webhook-timestamp is not a time";
        if (signatures == null || signatures.Length > 1024) return "webhook-signature is missing or too long";

        var head = Encoding.UTF8.GetBytes(id + "." + timestamp + ".");
        var signed = new byte[head.Length + body.Length];
        head.CopyTo(signed, 0);
        body.CopyTo(signed, head.Length);
        byte[] expected;
        using (var hmac = new HMACSHA256(Convert.FromBase64String(secret.Substring("whsec_".Length))))
            expected = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(hmac.ComputeHash(signed)));
        // There are two signatures while a change of the secret is staged.
        var found = false;
        foreach (var given in signatures.Split(' '))
            found |= CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes(given), expected);
        if (!found) return "no signature matches";

        return Math.Abs(now - long.Parse(timestamp)) > 300 ? "the signature is too old" : null;
    }
}
