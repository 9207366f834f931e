package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/web"
)

// Contract 48: the operator decides which part of a client's address is logged.
func TestClientLog_Modes(t *testing.T) {
	const v4, v6 = "203.0.113.77", "2001:db8:1:2:3::4"
	for how, want := range map[string]map[string]string{
		"":          {v4: v4, v6: v6},
		ClientWhole: {v4: v4, v6: v6},
		ClientCut:   {v4: "203.0.113.0/24", v6: "2001:db8:1::/48"},
		ClientOff:   {v4: "", v6: ""},
	} {
		var logs strings.Builder
		s := New(Config{Engine: fake{}, Public: listen(t), Routes: core.Routes(core.Config{}), LogClient: how,
			Log: slog.New(slog.NewJSONHandler(&logs, nil))})
		for address, shown := range want {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(address), 5000).String()
			s.public.ServeHTTP(httptest.NewRecorder(), r)
			var line map[string]any
			if err := json.Unmarshal([]byte(logs.String()), &line); err != nil {
				t.Fatalf("contract 48: %v: %s", err, &logs)
			}
			if got, _ := line["client"].(string); got != shown {
				t.Errorf("contract 48: log_client %q shows %s as %q, want %q", how, address, got, shown)
			}
			logs.Reset()
			// A connection without a request is logged by its network, which is a single address for IPv4.
			if address == v6 && shown == v6 {
				shown = "2001:db8:1:2::/64"
			}
			from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(r.RemoteAddr))
			network := networkOf(peerOf(&fakeConn{from: from}))
			s.log.LogAttrs(t.Context(), slog.LevelWarn, "", s.networkAttrs(network)...)
			var other struct{ Client string }
			if err := json.Unmarshal([]byte(logs.String()), &other); err != nil || other.Client != shown {
				t.Errorf("contract 48: log_client %q shows a connection of %s as %q, want %q: %v",
					how, address, other.Client, shown, err)
			}
			logs.Reset()
		}
		// net/http's errors about a connection contain both of its ends.
		const complaint = "http2: read tcp [2001:db8:1:2:3::4]:443->203.0.113.77:5000: i/o timeout"
		s.public.errorLog().Print(complaint)
		hidden := !strings.Contains(logs.String(), v4) && !strings.Contains(logs.String(), v6)
		whole := how == "" || how == ClientWhole
		if hidden == whole || !strings.Contains(logs.String(), "i/o timeout") {
			t.Errorf("contract 48: log_client %q: %s", how, &logs)
		}
	}
}

// aboutEngine is an engine that reports information about its requests.
type aboutEngine struct{ fake }

func (aboutEngine) Handle(ctx context.Context, _ *web.Request) *web.Response {
	About(ctx, host.RequestInfo{Session: "svc_sess_1", Key: "key_1"})
	About(ctx, host.RequestInfo{Code: "NOT_FOUND", Key: "key_2"})
	return &web.Response{Status: 404, Header: web.Header{}, Body: []byte("{}")}
}

func TestAccessLog_RequestInfo(t *testing.T) {
	var logs strings.Builder
	s := New(Config{Engine: aboutEngine{}, Public: listen(t), Routes: core.Routes(core.Config{}),
		Log: slog.New(slog.NewJSONHandler(&logs, nil))})
	s.public.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	s.public.ServeHTTP(httptest.NewRecorder(),
		httptest.NewRequest("GET", "/"+strings.Repeat("a", web.MaxURL), nil))
	About(context.Background(), host.RequestInfo{Session: "of nobody"}) // a job has no log line
	lines := strings.Split(strings.TrimSpace(logs.String()), "\n")
	for i, want := range []map[string]any{
		{"session": "svc_sess_1", "key": "key_2", "code": "NOT_FOUND", "integration": nil},
		{"session": nil, "code": "URI_TOO_LONG"},
	} {
		var line map[string]any
		if len(lines) != 2 || json.Unmarshal([]byte(lines[i]), &line) != nil {
			t.Fatalf("contract 48: %d lines: %s", len(lines), &logs)
		}
		if took, ok := line["took_ms"].(float64); !ok || took < 0 {
			t.Errorf("contract 48: took_ms is %v", line["took_ms"])
		}
		for member, value := range want {
			if line[member] != value {
				t.Errorf("contract 48: %s is %v, want %v", member, line[member], value)
			}
		}
	}
}
