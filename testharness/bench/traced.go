package main

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/otlp"
)

// newServiceTraced is newService with traces, of which a part is recorded and sent to a collector that reads
// them and keeps nothing. The collector works on the same processors.
func newServiceTraced(store kv.KV, sink string, sample float64) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // an error means that the exporter has gone
	}))
	provider, err := otlp.Open(context.Background(),
		otlp.Config{Endpoint: "http://" + l.Addr().String(), Sample: sample})
	if err != nil {
		return nil, err
	}
	s, err := newServiceWith(nil, store, sink, nil, nil, func(c *edge.Config) {
		c.Tracer = provider
		c.Store.Close = func() error {
			defer l.Close()
			return provider.Shutdown(context.Background())
		}
	})
	return s, err
}
