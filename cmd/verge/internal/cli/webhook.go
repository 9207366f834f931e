package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/webhook"
)

type webhookSecretCmd struct {
	File string `arg:"" optional:"" help:"File to create for the secret (mode 0600). It must not exist yet. Default: print the secret."`
}

// Help is shown by `verge webhook secret --help`.
func (webhookSecretCmd) Help() string {
	return `Creates a webhook secret of 256 random bits. Give it to the publisher, and set
secret_file or secret_env in the configuration.

Example:

    verge webhook secret /etc/verge/webhook-secret`
}

func (c *webhookSecretCmd) Run(p *program) error {
	secret, err := integration.GenerateSecret(p.Random)
	if err != nil {
		return err
	}
	if c.File == "" {
		fmt.Fprintln(p.stdout, secret)
		return nil
	}
	if err := p.checkNew(c.File); err != nil {
		return err
	}
	if err := config.WritePrivate(p.FS, c.File, []byte(secret+"\n")); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "Wrote %s (mode 0600).\n", c.File)
	return nil
}

type webhookVerifyCmd struct {
	SecretFile string `xor:"secret" placeholder:"FILE" help:"File with the webhook secret; white space at its ends is ignored."`
	SecretEnv  string `xor:"secret" placeholder:"NAME" help:"Environment variable with the webhook secret."`

	Request string   `xor:"what" placeholder:"FILE" help:"A whole request as it was received: request line, headers, an empty line, body. \"-\" is standard input."`
	Body    string   `xor:"what" placeholder:"FILE" help:"Only the raw body, with its headers in --header. \"-\" is standard input."`
	Header  []string `sep:"none" placeholder:"'NAME: VALUE'" help:"A header of the request; may be repeated. With --request, these are added to the file's headers."`

	Now       string          `placeholder:"TIME" help:"Verify as of this time: Unix seconds or RFC 3339. Default: now."`
	Tolerance config.Duration `default:"300s" help:"Maximum difference between the timestamp and that time."`
}

// Help is shown by `verge webhook verify --help`.
func (webhookVerifyCmd) Help() string {
	return `Prints OK, or the step of the algorithm that rejects the request and what to check.
Saved requests are usually old: use --now to test the signature itself.

Examples:

    verge webhook verify --secret-env WEBHOOK_SECRET --request saved.http --now 1768900000
    verge webhook verify --secret-file secret --body body.json \
        --header 'X-Service-Signature: t=1768900000,v1=…' --header 'X-Service-Timestamp: 1768900000'`
}

func (c *webhookVerifyCmd) Run(p *program) error {
	switch {
	case c.SecretFile == "" && c.SecretEnv == "":
		return usagef("give the webhook secret with --secret-file or --secret-env")
	case c.Request == "" && c.Body == "":
		return usagef(
			"give the request with --request, or its body with --body and its headers with --header")
	}
	secret, err := c.secret(p)
	if err != nil {
		return err
	}
	now, err := parseTime(c.Now, p.Now())
	if err != nil {
		return usagef("--now: %w", err)
	}
	header, body, err := c.request(p)
	if err != nil {
		return err
	}
	err = webhook.Verify(secret, header, body, now, time.Duration(c.Tolerance))
	if rejected, ok := errors.AsType[*webhook.VerifyError](err); ok {
		fmt.Fprintf(p.stdout, "REJECTED at step %d: %s\n", rejected.Step, rejected.Reason)
		return saidError{}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "OK: %d bytes of body, signed %s\n", len(body), signedAt(header))
	return nil
}

func (c *webhookVerifyCmd) secret(p *program) (string, error) {
	if c.SecretEnv != "" {
		s, isSet, err := p.SecretIn(c.SecretEnv)
		if !isSet {
			return "", usagef("--secret-env: the environment has no %s", c.SecretEnv)
		}
		if err != nil {
			return "", usagef("--secret-env: %s: %w", c.SecretEnv, err)
		}
		return s, nil
	}
	// Other users may be able to read this file, unlike the server's: it is often a copy on a developer's
	// machine, and only verifies signatures here.
	return p.ownSecret("--secret-file", c.SecretFile)
}

// request returns the request to verify.
func (c *webhookVerifyCmd) request(p *program) (header map[string][]string, body []byte, err error) {
	flag, path := "--body", c.Body
	if c.Request != "" {
		flag, path = "--request", c.Request
	}
	raw, err := p.read(path, maxSavedRequest)
	if err != nil {
		return nil, nil, usagef("%s: %w", flag, err)
	}
	header, body = map[string][]string{}, raw
	if c.Request != "" {
		if header, body, err = parseRequest(raw); err != nil {
			return nil, nil, usagef("--request %s: %w", path, err)
		}
	}
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, nil, usagef("--header %q: write it like 'Name: value'", h)
		}
		name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))
		header[name] = append(header[name], strings.TrimSpace(value))
	}
	return header, body, nil
}

// maxSavedRequest is larger than any webhook request.
const maxSavedRequest = 1 << 20

// parseRequest reads a saved HTTP/1 request: request line, headers, an empty line, and then the
// body, byte for byte. Lines end in CRLF, or in LF as editors leave them. If there is a
// Content-Length, the body ends there: a line end that an editor added is not part of it. A body
// that is shorter is an error.
func parseRequest(raw []byte) (map[string][]string, []byte, error) {
	r := bufio.NewReader(bytes.NewReader(raw))
	tp := textproto.NewReader(r)
	line, err := tp.ReadLine()
	if err != nil || !strings.Contains(line, " HTTP/") {
		return nil, nil, errors.New("the first line is not a request line like \"POST /webhooks HTTP/1.1\"")
	}
	header, err := tp.ReadMIMEHeader()
	if errors.Is(err, io.EOF) {
		return nil, nil, errors.New("no empty line after the headers, so there is no body")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the headers are malformed: %w", err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, err
	}
	if header.Get("Transfer-Encoding") != "" {
		return nil, nil, errors.New("the body is saved with Transfer-Encoding: " +
			"save it decoded and remove that header")
	}
	if text := header.Get("Content-Length"); text != "" {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
		if err != nil {
			return nil, nil, errors.New("Content-Length is not a number")
		}
		if int(n) > len(body) {
			return nil, nil, fmt.Errorf("Content-Length is %d but only %d bytes of body are saved", n,
				len(body))
		}
		body = body[:n]
	}
	return header, body, nil
}

// parseTime reads Unix seconds or RFC 3339. If s is empty, it returns standard.
func parseTime(s string, standard time.Time) (time.Time, error) {
	if s == "" {
		return standard, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(n, 0), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%q is neither Unix seconds nor an RFC 3339 time like 2026-11-20T22:10:00Z", s)
	}
	return t, nil
}

// signedAt returns the time of a verified signature, in words.
func signedAt(header map[string][]string) string {
	for name, values := range header {
		if strings.EqualFold(name, webhook.HeaderSignature) {
			for element := range strings.SplitSeq(values[0], ",") {
				if t, ok := strings.CutPrefix(strings.TrimSpace(element), "t="); ok {
					if n, err := strconv.ParseInt(t, 10, 64); err == nil {
						return words.When(time.Unix(n, 0))
					}
				}
			}
		}
	}
	return "at an unknown time"
}
