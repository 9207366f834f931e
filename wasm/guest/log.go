package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/verge-id/verge/wasm/abi"
)

// logger passes records to the host, which adds the time and has the destination.
type logger struct {
	*guest
	level slog.Level
	attrs []abi.LogAttr
	group string
}

// Enabled implements slog.Handler.
func (l logger) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }

// Handle implements slog.Handler.
func (l logger) Handle(_ context.Context, r slog.Record) error {
	attrs := append([]abi.LogAttr(nil), l.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = flatten(attrs, l.group, a)
		return true
	})
	l.log(abi.LogRecord{Level: int8(r.Level), Message: r.Message, Attrs: attrs})
	return nil
}

// WithAttrs implements slog.Handler.
func (l logger) WithAttrs(more []slog.Attr) slog.Handler {
	l.attrs = append([]abi.LogAttr(nil), l.attrs...)
	for _, a := range more {
		l.attrs = flatten(l.attrs, l.group, a)
	}
	return l
}

// WithGroup implements slog.Handler.
func (l logger) WithGroup(name string) slog.Handler {
	if name != "" {
		l.group += name + "."
	}
	return l
}

// flatten adds an attribute. The name of a group is prepended to the names of its attributes.
func flatten(attrs []abi.LogAttr, group string, a slog.Attr) []abi.LogAttr {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range v.Group() {
			attrs = flatten(attrs, group, member)
		}
		return attrs
	}
	if a.Equal(slog.Attr{}) {
		return attrs
	}
	return append(attrs, abi.LogAttr{Key: group + a.Key, Value: jsonOf(v)})
}

func jsonOf(v slog.Value) []byte {
	if v.Kind() == slog.KindDuration {
		return quoted(v.Duration().String())
	}
	any := v.Any()
	var err error
	if e, ok := any.(error); ok {
		return quoted(e.Error())
	}
	b, err := json.Marshal(any)
	if err != nil {
		return quoted(fmt.Sprint(any))
	}
	return b
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`) // cannot happen with a string
	}
	return b
}
