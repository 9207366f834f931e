// The fields of a line are as in Drive.cs. The last one is the id.
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
            var wrong = StandardWebhookCheck.Check(
                Text(f[0]), Text(f[5]), Text(f[2]), Text(f[1]), body, long.Parse(f[4]));
            System.Console.WriteLine(wrong == null ? "accepted" : "refused");
        }
    }
}
