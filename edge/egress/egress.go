// Package egress is the guarded HTTP client: the host.Fetcher that delivers webhooks and sends requests to
// providers (contract 26, 28).
//
// Use [New] with a zero Config in production. Every exchange has these guarantees:
//
//   - Only https, with TLS 1.2 or newer, and only to public addresses. The address is checked on the
//     socket, after name resolution and just before it connects. So a name that resolves to another address
//     the second time (DNS rebinding) does not help an attacker. Every port is allowed: the contract limits
//     addresses, and receivers also listen on other ports than 443.
//   - It follows no redirects, ignores the environment's proxies, and stores no cookies. A webhook
//     response's body is not decompressed. Methods get the content of a gzip body.
//   - Connecting takes at most 3 s, and the whole exchange, with the body, at most 10 s. A response that
//     stalls after its status is a timeout. At most 64 KiB of the body are read, and 1 MiB for a method.
//     The rest is cut off without an error. A request may set a shorter time, but not a longer one. A
//     trusted list may have 16 MiB and take a minute.
//   - A request is sent once. The only exception: if its first byte could not be written to a kept
//     connection, it is sent on a new one.
//
// A verification method may need a private certificate authority or addresses of a private network. The
// operator allows them by the method's name ([Allowance]). Such a method has separate connections, so no
// other request can use a connection that its allowance permitted.
//
// Not guaranteed: that a public address belongs to the receiver with that name. TLS proves this, the guard
// does not.
package egress

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/pemfile"
	"github.com/verge-id/verge/core/problem"
)

// Config configures a Client. The zero value has the contract's values.
type Config struct {
	// Dev also allows loopback addresses, and plain http to them. Use it on a developer's machine only. On
	// a server, anyone who may set a webhook URL could reach the services that trust the loopback
	// interface.
	Dev bool

	ConnectTimeout time.Duration // for name resolution and TCP together, and again for TLS; 0: 3 s
	Timeout        time.Duration // for the whole exchange; 0: 10 s
	MaxBody        int           // maximum bytes of a response's body that are read; 0: 64 KiB
	MaxHeader      int           // maximum bytes of a response's header; more is an error; 0: 64 KiB

	// IdleTimeout is how long a connection is kept for the next request. It is shorter than the 5 s after
	// which many receivers close the connection (Node's default): a POST that meets such a close is lost
	// and retried late. 0: 4 s.
	IdleTimeout time.Duration

	// IdlePerHost is the maximum number of kept connections per receiver. More may be open; the caller
	// limits them. 0: 16.
	IdlePerHost int

	RootCAs   *x509.CertPool // nil: the system's
	UserAgent string         // for requests that set none; "": "Verge"

	// Methods has the allowances of verification methods, by their names (host.FetchRequest.For). They do
	// not apply to other requests. Nil: no allowances.
	Methods map[string]Allowance

	// Lookup resolves names. Nil: the system's resolver. Its results are not trusted: the guard checks them
	// like all others.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Allowance permits one verification method more than other requests: its own roots, and addresses of
// private networks. The zero value permits nothing more.
//
// The core names the method of each request. The author of a module that Verge runs as a guest controls
// that name. So an allowance is as safe as the module.
type Allowance struct {
	// RootCAs are trusted instead of Config.RootCAs. Nil: Config.RootCAs.
	RootCAs *x509.CertPool

	// PrivateNetwork allows the addresses of private networks: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16
	// and fc00::/7. Loopback still requires Dev. Link-local addresses, and those of clouds' credential
	// services, stay forbidden.
	PrivateNetwork bool
}

// ParseRoots returns the certificate authorities of a PEM file. It rejects a file without certificates or
// with other blocks, such as a private key.
func ParseRoots(file []byte) (*x509.CertPool, error) {
	all, err := pemfile.Certificates(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool, nil
}

// maxTimeout is the limit of Config.Timeout. A claim leases its task for longer than two exchanges take,
// and after a crash the task waits until that lease ends.
const maxTimeout = 2 * time.Minute

// Validate returns all errors in c.
func (c Config) Validate() problem.List {
	var wrong problem.List
	for _, m := range []struct {
		member string
		time   time.Duration
	}{{"ConnectTimeout", c.ConnectTimeout}, {"Timeout", c.Timeout}, {"IdleTimeout", c.IdleTimeout}} {
		if m.time < 0 {
			wrong.Add(m.member, "%s is negative; it must be more than 0s", m.time)
		}
	}
	if c.Timeout > maxTimeout {
		wrong.Add("Timeout", "%s is too long; it must be at most %s", c.Timeout, maxTimeout)
	}
	for _, m := range []struct {
		member string
		number int
	}{{"MaxBody", c.MaxBody}, {"MaxHeader", c.MaxHeader}, {"IdlePerHost", c.IdlePerHost}} {
		if m.number < 0 {
			wrong.Add(m.member, "%d is negative; it must be at least 1", m.number)
		}
	}
	return wrong
}

// Client is a host.Fetcher. It may be used concurrently.
type Client struct {
	*guardedTransport // of all requests without a separate one
	byMethod          map[string]*guardedTransport
}

// guardedTransport is an http.Transport that connects only to allowed addresses. It does not share its
// connections.
type guardedTransport struct {
	cfg       Config
	guard     *ssrf.Guardian
	transport *http.Transport
}

var _ host.Fetcher = (*Client)(nil)

// Errors of rejections that do not depend on the resolved address.
var (
	errNotAllowed = errors.New("destination not allowed")
	errNumeric    = fmt.Errorf(
		"%w: the host is a number in disguise, write the address plainly or use a name", errNotAllowed)
	errMetadata = fmt.Errorf("%w: clouds give out the machine's credentials at this address", errNotAllowed)
	errPlain    = fmt.Errorf("%w: plain http goes to loopback addresses only", errNotAllowed)
)

// New returns a client. It does not connect yet.
func New(c Config) *Client {
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 3*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.MaxBody = cmp.Or(c.MaxBody, 64<<10)
	c.MaxHeader = cmp.Or(c.MaxHeader, 64<<10)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 4*time.Second)
	c.IdlePerHost = cmp.Or(c.IdlePerHost, 16)
	c.UserAgent = cmp.Or(c.UserAgent, "Verge")

	cl := &Client{guardedTransport: newGuardedTransport(c, Allowance{}),
		byMethod: map[string]*guardedTransport{}}
	for name, a := range c.Methods {
		if a != (Allowance{}) {
			cl.byMethod[name] = newGuardedTransport(c, a)
		}
	}
	return cl
}

// The prefixes that Allowance.PrivateNetwork allows. The shared space 100.64.0.0/10 is not one of them: a
// cloud has a credential service in it.
var privateV4Prefixes = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
}

var privateV6Prefixes = []netip.Prefix{netip.MustParsePrefix("fc00::/7")}

// metadata are the addresses of clouds' credential services within private networks: AWS, Google, Oracle
// and Scaleway.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"),
	netip.MustParsePrefix("fd20:ce::/48"),
	netip.MustParsePrefix("fd00:c1::/32"),
	netip.MustParsePrefix("fd00:42::42/128"),
}

func newGuardedTransport(c Config, a Allowance) *guardedTransport {
	if a.RootCAs != nil {
		c.RootCAs = a.RootCAs
	}
	options := []ssrf.Option{
		ssrf.WithAnyPort(),
		// Azure's host agent provides the machine's credentials at this address, which no registry
		// reserves.
		ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")),
	}
	var v4, v6 []netip.Prefix
	if c.Dev {
		v4 = append(v4, netip.MustParsePrefix("127.0.0.0/8"))
		v6 = append(v6, netip.MustParsePrefix("::1/128"))
	}
	if a.PrivateNetwork {
		v4, v6 = append(v4, privateV4Prefixes...), append(v6, privateV6Prefixes...)
	}
	options = append(options, ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	t := &guardedTransport{cfg: c, guard: ssrf.New(options...)}
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	t.transport = &http.Transport{
		Proxy:                  nil, // explicitly: the default transport reads the environment
		DialContext:            t.dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs},
		TLSHandshakeTimeout:    c.ConnectTimeout,
		DisableCompression:     true,
		MaxResponseHeaderBytes: int64(c.MaxHeader),
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    c.IdlePerHost,
		IdleConnTimeout:        c.IdleTimeout,
		// HTTP/2 would put all events of a receiver on one connection, where they would stall together.
		Protocols: http1,
	}
	return t
}

// transportFor returns the transport of the method with that name, or the default one.
func (c *Client) transportFor(method string) *guardedTransport {
	if t, ok := c.byMethod[method]; ok {
		return t
	}
	return c.guardedTransport
}

// Limits of a request for a method. Config has the settings for webhook receivers. A list of revoked
// documents has up to 1 MiB; methods have lower limits for all other responses.
const (
	methodTimeout = 10 * time.Second
	methodMaxBody = 1 << 20
)

// Limits of a request with FetchRequest.MaxBody, whose response is large.
const (
	largeTimeout = time.Minute
	largeMaxBody = 16<<20 + 1 // one byte more than a trusted list may have
)

// Fetch executes one exchange. Its errors are *host.FetchError. None contains the URL, whose path or query
// may include a receiver's secret.
func (c *Client) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	limit := c.cfg.Timeout
	switch {
	case req.MaxBody > 0:
		limit = largeTimeout
	case req.For != "":
		limit = methodTimeout
	}
	if req.Timeout > 0 {
		limit = min(limit, req.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var seen stage
	resp, err := c.transportFor(req.For).exchange(httptrace.WithClientTrace(ctx, seen.trace()), req)
	if err != nil {
		// The transport reports its own cancellation in several texts. All of them come with a passed
		// deadline.
		reason := seen.reason(ctx, err)
		if reason == host.FetchTLS && isAny(err, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET) {
			err = fmt.Errorf("%w: %w", err, errHandshakeCut)
		}
		return host.FetchResponse{}, &host.FetchError{Reason: reason, Err: err}
	}
	return resp, nil
}

func (t *guardedTransport) exchange(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	r, err := t.request(ctx, req)
	if err != nil {
		return host.FetchResponse{}, err
	}
	// The transport is used directly, because an http.Client would follow redirects and store cookies.
	resp, err := t.transport.RoundTrip(r)
	if err != nil {
		return host.FetchResponse{}, err
	}
	// If the body was read only in part, closing it also closes the connection. That stops the rest of the
	// response.
	defer resp.Body.Close()
	if resp.StatusCode < 100 {
		return host.FetchResponse{}, errNoStatus
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// The client did not request that. The transport also no longer watches the deadline of such a
		// connection.
		return host.FetchResponse{}, errors.New("the receiver switched protocols")
	}
	maxBody := t.cfg.MaxBody
	switch {
	case req.MaxBody > 0:
		maxBody = min(req.MaxBody, largeMaxBody)
	case req.For != "":
		maxBody = methodMaxBody
	}
	body, err := readBody(resp, int64(maxBody), req.For != "")
	if err == nil {
		// The end of the body may be the receiver's reaction to our close at the deadline: TLS sends a
		// close notification before the connection closes.
		err = ctx.Err()
	}
	if err != nil {
		return host.FetchResponse{}, fmt.Errorf("the response broke off behind status %d: %w",
			resp.StatusCode, err)
	}
	out := host.FetchResponse{
		Status: resp.StatusCode,
		Header: make(map[string]string, len(resp.Header)),
		Body:   body,
	}
	for k, v := range resp.Header {
		out.Header[k] = v[0]
	}
	return out, nil
}

func (t *guardedTransport) request(ctx context.Context, req host.FetchRequest) (*http.Request, error) {
	u, err := t.destination(req.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" {
		ctx = context.WithValue(ctx, plainHTTPKey{}, true)
	}
	r, err := http.NewRequestWithContext(ctx, req.Method, u.String(), bytes.NewReader(req.Body))
	if err != nil {
		return nil, errors.New("the method is malformed")
	}
	for k, v := range req.Header {
		r.Header.Set(k, v)
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", t.cfg.UserAgent)
	}
	if req.For != "" {
		// Without this header, a server may compress freely (RFC 9110, 12.5.3).
		r.Header.Set("Accept-Encoding", "identity")
	}
	return r, nil
}

// readBody reads at most maxBody bytes of a response's body. For a method it decompresses gzip, which some
// servers send unasked. The limit applies to the decompressed body. A webhook response's body is not
// decompressed, because it must not decide whether the event was delivered.
func readBody(resp *http.Response, maxBody int64, decompress bool) ([]byte, error) {
	coding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	if !decompress || coding != "gzip" && coding != "x-gzip" {
		return io.ReadAll(io.LimitReader(resp.Body, maxBody))
	}
	// The compressed body has a limit too, because gzip can have parts that decompress to no bytes.
	packed, err := io.ReadAll(io.LimitReader(resp.Body, 2*maxBody))
	if err != nil || len(packed) == 0 {
		return nil, err
	}
	body, err := unpack(packed, maxBody)
	if err != nil {
		// Not wrapped: an end of file in the gzip data is not the end of the response.
		return nil, errors.New("the gzip data is malformed: " + err.Error())
	}
	return body, nil
}

// unpack decompresses at most maxBody bytes.
func unpack(packed []byte, maxBody int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, maxBody))
}

// destination checks a URL without resolving its host.
func (t *guardedTransport) destination(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL is malformed", errNotAllowed)
	}
	switch {
	case u.Scheme != "https" && (!t.cfg.Dev || u.Scheme != "http"):
		return nil, fmt.Errorf("%w: the URL is not https", errNotAllowed)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: the URL has no host", errNotAllowed)
	case u.User != nil:
		return nil, fmt.Errorf("%w: the URL carries a user", errNotAllowed)
	}
	u.RawQuery = sendable(u.RawQuery)
	return u, nil
}

// sendable escapes the bytes of a query that are invalid in a request line. An earlier release accepted
// webhook URLs with such bytes (contract 28), and url.URL escapes only the path.
func sendable(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Check rejects a URL that Fetch would always reject, so that it can be rejected when it is configured. It
// does not use the DNS. A name with a private address is detected only when it is dialled.
func (c *Client) Check(raw string) error { return c.guardedTransport.check(raw) }

// CheckFor is like Check, for the requests of the method with that name.
func (c *Client) CheckFor(method, raw string) error { return c.transportFor(method).check(raw) }

func (t *guardedTransport) check(raw string) error {
	u, err := t.destination(raw)
	if err != nil {
		return err
	}
	name := u.Hostname()
	if isLocalhost(name) {
		name = "127.0.0.1" // its meaning by RFC 6761
	}
	if looksNumeric(name) {
		return errNumeric
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return nil
	}
	addr = addr.Unmap() // the form that dial uses
	if u.Scheme == "http" && !addr.IsLoopback() {
		return errPlain
	}
	if t.safeAddr(addr) != nil {
		return fmt.Errorf("%w: %s is not a public address", errNotAllowed, u.Hostname())
	}
	return nil
}

// safe rejects a socket's address that is not allowed.
func (t *guardedTransport) safe(network, address string, conn syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err == nil && isMetadata(at.Addr()) {
		return errMetadata
	}
	return t.guard.Safe(network, address, conn)
}

// safeAddr is safe for an address in a URL.
func (t *guardedTransport) safeAddr(addr netip.Addr) error {
	if isMetadata(addr) {
		return errMetadata
	}
	return t.guard.SafeAddr(addr)
}

func isMetadata(a netip.Addr) bool {
	a = a.WithZone("") // a prefix contains no address with a zone
	return slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(a) })
}

func isLocalhost(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// looksNumeric distinguishes 2130706433, 0x7f.1, 0177.0.0.1 and 127.0.0.1. from names and from plain
// addresses. No DNS name ends in a number. But some resolvers read such a text as an IPv4 address and
// others query the DNS. The meaning of a URL must not depend on that.
func looksNumeric(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return false
	}
	name = strings.ToLower(strings.TrimRight(name, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return true
	}
	digits, set := last, "0123456789"
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		digits, set = hex, set+"abcdef"
	}
	return strings.Trim(digits, set) == ""
}

// plainHTTPKey marks the context of an exchange without TLS.
type plainHTTPKey struct{}

func isLoopback(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// dial connects to the first address of the name that accepts. The guard is in the dialer's Control, which
// runs for each socket with the address to which it is about to connect. Here the name is in ASCII,
// regardless of the URL's script.
func (t *guardedTransport) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if looksNumeric(name) {
		return nil, errNumeric
	}
	d := net.Dialer{
		Timeout: t.cfg.ConnectTimeout,
		Control: func(network, address string, conn syscall.RawConn) error {
			if ctx.Value(plainHTTPKey{}) != nil && !isLoopback(address) {
				return errPlain
			}
			return t.safe(network, address, conn)
		},
	}
	if _, err := netip.ParseAddr(name); err == nil || t.cfg.Lookup == nil {
		return d.DialContext(ctx, network, addr)
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ConnectTimeout)
	defer cancel()
	found, err := t.cfg.Lookup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLookup, err)
	}
	err = &net.DNSError{Err: "no address", Name: name, IsNotFound: true}
	for _, a := range found {
		conn, dialErr := d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if dialErr == nil {
			return conn, nil
		}
		err = dialErr
	}
	return nil, err
}
