package etcd_test

import (
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/testharness/stores"
)

func TestTLS(t *testing.T) {
	c := stores.NewCertificate(t)
	_, addr := stores.StartEtcdTLS(t, c)
	trusting := &tls.Config{RootCAs: c.Roots}
	known := &tls.Config{RootCAs: c.Roots, Certificates: []tls.Certificate{c.Pair}}
	for _, tt := range []struct {
		name, url string
		tls       *tls.Config
		ok        bool
	}{
		{"the client's CAs do not know the server", "etcds://" + addr, nil, false},
		{"the server does not know the client", "etcds://" + addr, trusting, false},
		{"both know each other", "etcds://" + addr, known, true},
		{"a configuration for TLS makes etcd:// TLS as well", "etcd://" + addr, known, true},
		{"without TLS", "etcd://" + addr, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := etcd.Open(t.Context(), tt.url, etcd.Config{TLS: tt.tls, Timeout: time.Second})
			if (err == nil) != tt.ok {
				t.Fatalf("%v, want success: %v", err, tt.ok)
			}
			if err != nil {
				if !errors.Is(err, kv.ErrUnavailable) {
					t.Errorf("%v is not kv.ErrUnavailable", err)
				}
				return
			}
			defer s.Close()
			if _, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: "n"}); !errors.Is(err,
				kv.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}
