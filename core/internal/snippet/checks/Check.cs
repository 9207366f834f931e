using System;
using System.Collections.Generic;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;

static class WebhookCheck
{
    // Check returns the reason to reject a request, or null. signature and timestamp are its headers
    // X-Service-Signature and X-Service-Timestamp, body is its raw bytes, and now is in Unix seconds.
    // ASP.NET Core: copy Request.Body to a MemoryStream, before anything binds it to a model.
    public static string Check(string secret, string signature, string timestamp, byte[] body, long now)
    {
        if (string.IsNullOrEmpty(secret)) return "the secret is missing";
        if (signature == null || signature.Length > 1024) return "the signature header is missing or too long";

        var fields = new Dictionary<string, string>();
        foreach (var element in signature.Split(','))
        {
            var pair = element.Trim(' ', '\t').Split(new[] { '=' }, 2);
            if (pair.Length < 2 || fields.ContainsKey(pair[0])) return "the signature header is malformed";
            fields[pair[0]] = pair[1];
        }
        fields.TryGetValue("t", out var t);
        fields.TryGetValue("v1", out var v1);
        if (!Regex.IsMatch(t ?? "", @"\A(0|[1-9][0-9]{0,11})\z")) return "t of the signature header is not a time";
        if (!Regex.IsMatch(v1 ?? "", @"\A[0-9a-fA-F]{64}\z")) return "v1 of the signature header is not hexadecimal";
        if (timestamp != null && timestamp != t) return "X-Service-Timestamp differs from t";

        var signed = new byte[t.Length + 1 + body.Length];
        Encoding.ASCII.GetBytes(t + ".", 0, t.Length + 1, signed, 0);
        body.CopyTo(signed, t.Length + 1);
        using (var hmac = new HMACSHA256(Encoding.UTF8.GetBytes(secret)))
        {
            var expected = hmac.ComputeHash(signed);
            var given = new byte[expected.Length];
            for (var i = 0; i < given.Length; i++) given[i] = Convert.ToByte(v1.Substring(2 * i, 2), 16);
            if (!CryptographicOperations.FixedTimeEquals(given, expected)) return "the signature does not match";
        }
        return Math.Abs(now - long.Parse(t)) > 300 ? "the signature is too old" : null;
    }
}
