package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/afero"
)

// serverFlags are where an operator's command finds the admin listener. Each
// of those commands embeds them.
type serverFlags struct {
	AdminURL  string `group:"server" placeholder:"URL" env:"VERGE_ADMIN_URL" help:"The admin listener. Default: that of the \"verge dev\" which runs here."`
	TokenFile string `group:"server" placeholder:"FILE" env:"VERGE_OPERATOR_TOKEN_FILE" help:"File with the operator token. Or set $$VERGE_OPERATOR_TOKEN."`
	ReadyFile string `group:"server" default:".verge/ready.json" type:"path" env:"VERGE_READY_FILE" help:"Ready file of the \"verge dev\" to ask if no URL is given."`
}

// adminClient asks a running server as its operator.
type adminClient struct {
	base   string
	token  string
	source string // where base comes from, for messages
	http   *http.Client
}

// client finds out whom to ask and as whom: what is given explicitly, or else
// the `verge dev` that runs here.
func (f serverFlags) client(p *program) (*adminClient, error) {
	c := &adminClient{base: strings.TrimSuffix(f.AdminURL, "/"), source: "--admin-url or $VERGE_ADMIN_URL",
		// More than any server allows itself: five probes of maxWebhookTime.
		http: &http.Client{Timeout: 15 * time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token is for that address and no other
		}}}
	if err := c.readToken(f, p); err != nil {
		return nil, err
	}
	if c.base == "" {
		ready, err := readReady(p.fs, f.ReadyFile)
		if isMissing(err) {
			return nil, usagef("no server to ask: `verge dev` does not run here (there is no %s), and neither --admin-url nor VERGE_ADMIN_URL is set", f.ReadyFile)
		}
		if err != nil {
			return nil, usageError{err}
		}
		c.base, c.source = ready.AdminURL, f.ReadyFile
		if c.token == "" {
			c.token = ready.OperatorToken
		}
	}
	u, err := url.Parse(c.base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("%s: %q is not a URL like http://127.0.0.1:8081", c.source, c.base)
	}
	if u.Scheme == "http" && !isLoopback(u.Host) && !isLoopback(u.Host+":80") {
		return nil, usagef("%s: %s would send the operator token through the network in the clear: use https, or a tunnel to the server's loopback", c.source, c.base)
	}
	if c.token == "" {
		return nil, usagef("no operator token: set VERGE_OPERATOR_TOKEN or give --token-file")
	}
	return c, nil
}

func (c *adminClient) readToken(f serverFlags, p *program) error {
	if f.TokenFile == "" {
		token, _ := p.getenv("VERGE_OPERATOR_TOKEN")
		c.token = strings.TrimSpace(token)
		return nil
	}
	b, err := afero.ReadFile(p.fs, f.TokenFile)
	if err != nil {
		return usagef("--token-file: %w", err)
	}
	c.token = strings.TrimSpace(string(b))
	return nil
}

// adminError is an answer that is not 200.
type adminError struct {
	Status    int    `json:"-"`
	Code      string `json:"code"`
	Message   string `json:"error"`
	RequestID string `json:"request_id"`
}

func (e *adminError) Error() string {
	return fmt.Sprintf("%s (%s, request %s)", strings.TrimSuffix(e.Message, "."), e.Code, e.RequestID)
}

// call makes one request and reads the answer into out.
func (c *adminClient) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	return c.send(ctx, method, path, http.Header{"Content-Type": {"application/json"}}, body, out)
}

// send is call with a body that is ready to be sent.
func (c *adminClient) send(ctx context.Context, method, path string, header http.Header, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("no answer from %s (from %s): %w; does the server run, and is that its admin listener?", c.base, c.source, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return fmt.Errorf("the answer of %s broke off: %w", c.base, err)
	}
	if resp.StatusCode != http.StatusOK {
		e := &adminError{Status: resp.StatusCode}
		if json.Unmarshal(b, e) != nil || e.Code == "" {
			return fmt.Errorf("%s (from %s) answered status %d, not as an admin listener does: is that its address?", c.base, c.source, resp.StatusCode)
		}
		if e.Status == http.StatusUnauthorized {
			return fmt.Errorf("%s does not accept this operator token: %w", c.base, e)
		}
		return e
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("the answer of %s is not the JSON expected, is its release another one? %w", c.base, err)
	}
	return nil
}

// fill puts id into the place of {id} in a path of package admin.
func fill(path, id string) string { return strings.Replace(path, "{id}", url.PathEscape(id), 1) }
