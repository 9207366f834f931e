package certs

import (
	"bytes"
	"encoding/json"
	"log"
	"log/slog"
	"net"
	"testing"
)

// TestACMELogsAsEverythingElse: what the library says to the standard logger is a line of JSON, too (contract
// 48).
func TestACMELogsAsEverythingElse(t *testing.T) {
	flags, out := log.Flags(), log.Writer()
	defer func() { log.SetFlags(flags); log.SetOutput(out) }()
	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer public.Close()
	said := new(bytes.Buffer)
	a := &Authority{Host: "verify.example.com", Directory: "https://acme.example/directory",
		Storage: t.TempDir()}
	a.Open(public, slog.New(slog.NewJSONHandler(said, nil)))
	defer a.Close()
	log.Print("[WARNING] the port is taken")
	var line struct{ Level, Msg string }
	if err := json.Unmarshal(said.Bytes(), &line); err != nil || line.Level != "WARN" ||
		line.Msg != "[WARNING] the port is taken" {
		t.Errorf("%v: %s", err, said)
	}
}
