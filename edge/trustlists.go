package edge

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"os"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/edge/internal/listfetch"
)

func (s *Service) listConfig(methods method.Catalog) listfetch.Config {
	c := s.config
	// The request is not measured as one of the method: the list is at another server.
	source := listfetch.Source{Fetch: s.trace.Fetcher(c.Fetch), ReadFile: c.ReadFile, Now: c.Now}
	return listfetch.Config{Methods: methods, Store: s.native.TrustLists(), Get: source.Get, Now: c.Now,
		Jitter: jitter(c.Random), Log: c.Log, Metrics: c.Server.Metrics}
}

// jitter returns a function that draws a number from 0 to 1.
func jitter(random io.Reader) func() float64 {
	return func() float64 {
		var b [4]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return 0
		}
		return float64(binary.BigEndian.Uint32(b[:])) / math.MaxUint32
	}
}

// refreshLists keeps the trusted lists fresh until ctx is done. The function that it returns waits for the
// end.
func (s *Service) refreshLists(ctx context.Context) (wait func()) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.lists.Run(ctx)
	}()
	return func() {
		stop()
		<-done
	}
}

// TrustLists returns the trusted lists of all methods, as they are stored.
func (s *Service) TrustLists(ctx context.Context) ([]operate.TrustList, error) {
	return s.native.TrustLists().All(ctx)
}

// RefreshTrustLists makes Serve fetch all trusted lists now, for a program that has learned of a change.
func (s *Service) RefreshTrustLists() { s.lists.Ask() }

// readFile reads at most limit bytes of a file.
func readFile(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit)))
}
