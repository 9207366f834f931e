package pemfile

import (
	"strings"
	"testing"
)

func block(kind, text string) string {
	return "-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n"
}

func TestBlocks(t *testing.T) {
	a, b := block("CERTIFICATE", "AAAA"), block("CERTIFICATE", "BBBB")
	for _, c := range []struct {
		rule, file string
		n          int
		wrong      string
	}{
		{"a block", a, 1, ""},
		{"several, with text between them", "x\n" + a + "y\n" + b, 2, ""},
		{"CRLF", strings.ReplaceAll(a+b, "\n", "\r\n"), 2, ""},
		{"a byte order mark", "\ufeff" + a + b, 2, ""},
		{"no newline at the end", strings.TrimSpace(a + b), 2, ""},
		{"UTF-16", "\xff\xfe-\x00-\x00", 0, "UTF-16"},
		{"UTF-16, big end first", "\xfe\xff\x00-\x00-", 0, "UTF-16"},
		{"nothing", "", 0, "there is no PEM in it; PEM begins with -----BEGIN CERTIFICATE-----"},
		{"the first one is damaged", block("CERTIFICATE", "A!") + b, 0, "damaged; 1 can be read"},
		{"the last one is damaged", a + block("CERTIFICATE", "A!"), 0, "damaged; 1 can be read"},
		{"the last one is cut", a + b[:40], 0, "damaged; 1 can be read"},
	} {
		got, err := Blocks([]byte(c.file), "CERTIFICATE")
		if len(got) != c.n || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(),
			c.wrong) {
			t.Errorf("contract 13: %s: %d blocks, %v", c.rule, len(got), err)
		}
	}
}

func TestPrivateKey(t *testing.T) {
	key, parameters := block("PRIVATE KEY", "AAAA"), block("EC PARAMETERS", "BBBB")
	old := "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n" +
		"-----END RSA PRIVATE KEY-----\n"
	for _, c := range []struct{ rule, file, wrong string }{
		{"a key", key, ""},
		{"parameters in front of it", parameters + key, ""},
		{"a byte order mark", "\ufeff" + key, ""},
		{"two keys", key + key, "there are 2 things in it"},
		{"parameters alone", parameters, "there are 0 things in it"},
		{"an encrypted key", block("ENCRYPTED PRIVATE KEY", "AAAA"), "the key is encrypted"},
		{"an encrypted key of the old form", old, "the key is encrypted"},
		{"a certificate and an encrypted key", block("CERTIFICATE", "AAAA") + old, "the key is encrypted"},
	} {
		got, err := PrivateKey([]byte(c.file))
		if (got != nil) != (c.wrong == "") || (err == nil) != (c.wrong == "") ||
			err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("contract 13: %s: %v", c.rule, err)
		}
	}
}

func TestCertificates(t *testing.T) {
	for file, wrong := range map[string]string{
		block("CERTIFICATE", "AAAA"): "certificate 1 cannot be read",
		block("PRIVATE KEY", "AAAA"): "block 1 is a PRIVATE KEY; only certificates belong there",
		"":                           "there is no PEM in it",
	} {
		if all, err := Certificates([]byte(file)); err == nil || all != nil || !strings.Contains(err.Error(),
			wrong) {
			t.Errorf("contract 13: %q: %v", file, err)
		}
	}
}
