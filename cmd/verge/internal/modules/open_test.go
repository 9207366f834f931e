package modules

import (
	"crypto/rand"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/kvadapters/memory"
)

// A switch gives a service its engine, and operators see which one it is.
func TestOpen_Switch(t *testing.T) {
	bad := badModules(t)[0]
	for _, c := range []struct {
		config Config
		says   string
	}{
		{Config{}, `{"engine":"native"}`},
		{Config{Module: &bad}, `{"engine":"wasm","active":{"digest":"` + bad.Digest + `","source":"file a"`},
	} {
		public, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ring, err := keyring.Generate(rand.Reader, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		s := NewSwitch(c.config)
		service, err := edge.Open(t.Context(), edge.Config{
			Core:  core.Config{BaseURL: "http://" + public.Addr().String(), Dev: true},
			Store: edge.Store{KV: memory.New(memory.Config{})}, Engine: s.Open, Keyring: ring, Public: public,
			AdminEndpoints: map[string]edge.AdminEndpoint{Path: s.AdminEndpoint()},
		})
		if err != nil {
			t.Fatal(err)
		}
		shown := answered(t, s, &web.Request{Method: "GET", Path: Path}, nil)
		if shown.Status != 200 || !strings.HasPrefix(string(shown.Body), c.says) {
			t.Errorf("%d %s, want %s", shown.Status, shown.Body, c.says)
		}
		index := service.Engine().Admin(t.Context(),
			&web.Request{Method: "GET", Path: "/", Header: web.Header{}})
		if index.Status != 200 || !strings.Contains(string(index.Body), "  POST  "+Path+"\n") {
			t.Errorf("%s: the index is %d %s", c.says, index.Status, index.Body)
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("serving", s.Attr())
		if name := s.State().Engine; !strings.Contains(log.String(), "engine="+name) ||
			(name == engine.WASM) != strings.Contains(log.String(), "module="+bad.Digest) {
			t.Errorf("%s: the log says %s", c.says, &log)
		}
		if err := service.Close(); err != nil {
			t.Error(err)
		}
		req := &web.Request{Method: "GET", Path: "/x"}
		if c.config.Module != nil && service.Engine().Handle(t.Context(), req).Status != 503 {
			t.Error("guests answer after the service was closed")
		}
	}
}

// If a switch cannot start its module, the service does not open.
func TestOpen_InvalidModule(t *testing.T) {
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Generate(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, err = edge.Open(t.Context(), edge.Config{
		Core:    core.Config{BaseURL: "http://" + public.Addr().String(), Dev: true},
		Store:   edge.Store{KV: memory.New(memory.Config{})},
		Engine:  NewSwitch(Config{Module: &Module{WASM: []byte("\x00asm\x01\x00\x00\x00")}}).Open,
		Keyring: ring, Public: public,
	})
	const says = "is no guest of this version"
	if err == nil || !strings.HasPrefix(err.Error(), "engine wasm: ") ||
		!strings.Contains(err.Error(), says) {
		t.Errorf("%v, want that it %s", err, says)
	}
}
