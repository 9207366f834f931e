// The vectors are lines of fields in base64, separated by tabs.
static class Drive
{
    static string Text(string field)
    {
        return field == "-" ? null : System.Text.Encoding.UTF8.GetString(System.Convert.FromBase64String(field));
    }

    static void Main()
    {
        for (string line; (line = System.Console.ReadLine()) != null;)
        {
            var f = line.Split('\t');
            var body = System.Convert.FromBase64String(f[3]);
            var wrong = WebhookCheck.Check(Text(f[0]), Text(f[1]), Text(f[2]), body, long.Parse(f[4]));
            System.Console.WriteLine(wrong == null ? "accepted" : "refused");
        }
    }
}
