package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	"code.dny.dev/ssrf"

	"github.com/verge-id/verge/core/host"
)

// stage records the progress of an exchange. The transport reports to it from its own goroutines, even
// after the exchange has ended.
type stage struct {
	handshakeFailed, responded atomic.Bool
}

func (s *stage) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		TLSHandshakeDone:     func(_ tls.ConnectionState, err error) { s.handshakeFailed.Store(err != nil) },
		GotFirstResponseByte: func() { s.responded.Store(true) },
	}
}

// errLookup marks the errors of Config.Lookup.
var errLookup = errors.New("name not resolved")

// reason returns the reason why there is no response. The errors alone are not sufficient: the transport
// has many different texts for a failed handshake and for an interrupted response.
func (s *stage) reason(ctx context.Context, err error) string {
	var ne net.Error
	var dns *net.DNSError
	switch {
	case isAny(err, errNotAllowed, ssrf.ErrProhibitedIP, ssrf.ErrProhibitedNetwork, ssrf.ErrInvalidHostPort):
		return host.FetchBlocked
	case errors.Is(ctx.Err(), context.DeadlineExceeded),
		errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &ne) && ne.Timeout():
		return host.FetchTimeout
	case errors.As(err, &dns), errors.Is(err, errLookup):
		return host.FetchDNS
	case errors.Is(err, syscall.ECONNREFUSED):
		return host.FetchRefused
	case s.responded.Load():
		return malformed(err)
	case s.handshakeFailed.Load():
		return host.FetchTLS
	}
	return host.FetchNetwork
}

// errHandshakeCut: the server closed the connection during the handshake. Servers do so for a name that they
// do not serve, for example.
var errHandshakeCut = errors.New("tls: the server closed the connection during the handshake")

// errNoStatus marks a status line such as "HTTP/1.1 000", which net/http accepts.
var errNoStatus = errors.New("the status is below 100")

// malformed returns the fault of a response that began. net/http has no types for most of its errors, so it
// checks their texts. An unknown text is FetchMalformed.
func malformed(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, errNoStatus), strings.Contains(text, "malformed HTTP "):
		return host.FetchStatusLine
	case strings.Contains(text, "server response headers exceeded"):
		return host.FetchHeaderSize
	case strings.Contains(text, "MIME header"):
		return host.FetchHeaderLine
	case isAny(err, io.ErrUnexpectedEOF, io.EOF, syscall.ECONNRESET):
		return host.FetchCut
	}
	return host.FetchMalformed
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
