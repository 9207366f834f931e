package wasmhost

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

// ports are what effects are carried out on, and who hears notices.
type ports struct {
	effect.Ports
	log   *slog.Logger
	count func(event string)
	wake  func(p kv.Partition, due time.Time)
}

// lost is the reply to an effect of which nobody knows what became.
func lost(k abi.Kind, text string) (abi.Status, []byte) {
	switch k {
	case abi.KVCommit:
		return abi.Unknown, []byte(text)
	case abi.Fetch:
		return abi.NoAnswer, abi.AppendFetchError(nil, host.FetchNetwork, text)
	}
	return abi.Unavailable, []byte(text)
}

// heed takes a notice. One that cannot be read is a line in the log.
func (p *ports) heed(rec abi.Record) {
	switch rec.Kind {
	case abi.Log:
		l, err := abi.ReadLog(rec.Body)
		if err != nil {
			p.log.Error("the guest's log cannot be read", "error", err.Error())
			return
		}
		attrs := make([]slog.Attr, len(l.Attrs))
		for i, a := range l.Attrs {
			attrs[i] = slog.Any(a.Key, plain(a.Value))
		}
		p.log.LogAttrs(context.Background(), slog.Level(l.Level), l.Message, attrs...)
	case abi.Count:
		p.count(string(rec.Body))
	case abi.Wake:
		if partition, due, err := abi.ReadWake(rec.Body); err == nil {
			p.wake(partition, due)
		}
	}
}

// plain is the value that JSON is of, or its text.
func plain(b []byte) any {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return string(b)
	}
	return v
}
