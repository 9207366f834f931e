// Package adminclient calls the operators' API of a running Verge server. All commands of `verge` that call a
// server use it.
//
// New takes the address of the server's admin listener and the operator token. [Do] makes the request of an
// endpoint of package operate, and [All] reads all pages of a list. Both return an *Error if the server
// returned one, and another error if there was no response of an admin listener. Requests are not repeated.
package adminclient

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

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/web"
)

// Config has the address of the server and the operator token.
type Config struct {
	// URL is the address of the admin listener, as in "http://127.0.0.1:8081". It must be https, unless the
	// host is this machine: the operator token would be sent unencrypted.
	URL string

	// Token is the operator token.
	Token string

	// From is the flag or variable that set URL, for error messages. "": unknown.
	From string

	// HTTP sends the requests; redirects are not followed. Nil: a client with a timeout of 15 minutes.
	HTTP *http.Client
}

// defaultTimeout exceeds the time of any response: a webhook test sends five requests, each of which may
// take the server's webhook timeout.
const defaultTimeout = 15 * time.Minute

// ErrNoToken is New's error if Config.Token is empty.
var ErrNoToken = errors.New("adminclient: no operator token")

// Client calls one server. Its methods may be called concurrently.
type Client struct {
	base  string
	token string
	from  string // " (from …)", or ""
	http  *http.Client
}

// New returns a client. It sends no request yet.
func New(c Config) (*Client, error) {
	base := strings.TrimSuffix(c.URL, "/")
	prefix, from := "", ""
	if c.From != "" {
		prefix, from = c.From+": ", " (from "+c.From+")"
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s%q is not a URL like http://127.0.0.1:8081", prefix, base)
	}
	if u.Scheme == "http" && !config.IsThisMachine(u.Hostname()) {
		return nil, fmt.Errorf("%s%s would send the operator token unencrypted through the network: "+
			"use https, or a tunnel to the server's loopback", prefix, base)
	}
	if c.Token == "" {
		return nil, ErrNoToken
	}
	client := &http.Client{Timeout: defaultTimeout}
	if c.HTTP != nil {
		*client = *c.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is only for that address
	}
	return &Client{base: base, token: c.Token, from: from, http: client}, nil
}

// Error is the error response of a server.
type Error struct {
	Status    int              `json:"-"`    // HTTP status
	Code      string           `json:"code"` // like NOT_FOUND
	Details   []web.FieldError `json:"details"`
	Message   string           `json:"error"`
	RequestID string           `json:"request_id"` // finds the request in the server's log; "": no request
}

func (e *Error) Error() string {
	request := ""
	if e.RequestID != "" {
		request = ", request " + e.RequestID
	}
	text := fmt.Sprintf("%s (%s%s)", strings.TrimSuffix(e.Message, "."), e.Code, request)
	for _, d := range e.Details {
		text += "\n  " + d.Field + ": " + d.Message
	}
	return text
}

// Module returns the engine and the module of the server.
func (c *Client) Module(ctx context.Context) (*admin.ModuleState, error) {
	var s admin.ModuleState
	if err := c.send(ctx, "GET", admin.ModulePath, jsonHeader(), nil, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// ActivateModule activates another module. signature is the output of `verge module sign`, or "".
func (c *Client) ActivateModule(ctx context.Context, wasm []byte, signature string) (
	*admin.ModuleActivated, error) {
	// Expect makes the server check the token before megabytes are sent.
	header := http.Header{"Content-Type": {"application/wasm"}, "Expect": {"100-continue"}}
	if signature != "" {
		header.Set(admin.ModuleSignatureHeader, signature)
	}
	var done admin.ModuleActivated
	if err := c.send(ctx, "POST", admin.ModulePath, header, wasm, &done); err != nil {
		return nil, err
	}
	return &done, nil
}

// Backup makes the server write a backup of its store, in a file next to it.
func (c *Client) Backup(ctx context.Context) (*admin.BackupMade, error) {
	var made admin.BackupMade
	if err := c.send(ctx, "POST", admin.BackupPath, jsonHeader(), nil, &made); err != nil {
		return nil, err
	}
	return &made, nil
}

// ofWorker has instructions for Workers, for the paths that only `verge serve` has.
var ofWorker = map[string]string{
	admin.ModulePath: "its module is part of the deployment: replace it with `npx wrangler deploy`",
	admin.BackupPath: "its data is in Durable Objects: back it up with `verge kv export`",
}

// maxResponse exceeds the size of any response: a report of 250 integrations and a year has about 40 MiB.
const maxResponse = 64 << 20

// send sends one request and reads the response, whose status must be 200, into out. A *[]byte gets the raw
// body.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, body []byte,
	out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return c.interrupted(method)
	}
	if err != nil {
		var u *url.Error // repeats the method and the URL
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("no response from %s%s: %w; does the server run, and is this its admin listener?",
			c.base, c.from, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return c.interrupted(method)
	}
	if err != nil {
		return fmt.Errorf("the response of %s was cut off: %w", c.base, err)
	}
	if resp.StatusCode != http.StatusOK {
		return c.rejected(resp.StatusCode, path, b)
	}
	if len(b) > maxResponse {
		return fmt.Errorf("the response of %s is longer than %d MiB; ask for less, such as a shorter period "+
			"or one publisher", c.base, maxResponse>>20)
	}
	if text, ok := out.(*[]byte); ok {
		*text = b
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("the response of %s is not the expected JSON, does it run another release? %w",
			c.base, err)
	}
	return nil
}

// interrupted returns the error of a request that the caller ended, such as by Ctrl-C.
func (c *Client) interrupted(method string) error {
	if method == http.MethodGet {
		return fmt.Errorf("interrupted before %s responded", c.base)
	}
	return fmt.Errorf("interrupted before %s responded; it may complete the request: check the result "+
		"before you repeat it", c.base)
}

// rejected returns the error of a response whose status is not 200.
func (c *Client) rejected(status int, path string, body []byte) error {
	e := &Error{Status: status}
	if json.Unmarshal(body, e) != nil || e.Code == "" {
		return fmt.Errorf("%s%s returned status %d, unlike an admin listener: is this the right address?",
			c.base, c.from, status)
	}
	if status == http.StatusNotFound && e.Message == web.ErrNoPath.Message {
		path, _, _ = strings.Cut(path, "?")
		if path == admin.StorePath {
			return fmt.Errorf("%s%s has no path %s, which only Cloudflare Workers of this release have. "+
				"For a server with bolt, use `verge kv backup` and `verge kv restore`", c.base, c.from, path)
		}
		if instead := ofWorker[path]; instead != "" {
			return fmt.Errorf("%s%s has no path %s. Cloudflare Workers lack it: %s. If it is not a Worker, "+
				"use the server's listen.admin, by default http://127.0.0.1:8081",
				c.base, c.from, path, instead)
		}
		return fmt.Errorf("%s%s has no path %s, so it is not an admin listener of this release: "+
			"is it the public listener? Use the server's listen.admin, by default http://127.0.0.1:8081",
			c.base, c.from, path)
	}
	if status == http.StatusUnauthorized {
		// The server's message explains how to send a token, which this client has done.
		e.Message = "it may be mistyped, expired or revoked"
		return fmt.Errorf("%s does not accept this operator token: %w", c.base, e)
	}
	return e
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }
