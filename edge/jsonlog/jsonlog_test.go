package jsonlog_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/edge/jsonlog"
)

func ExampleNew() {
	log := slog.New(jsonlog.New(os.Stderr, slog.LevelInfo)) // for edge.Config.Log
	log.Info("starting")
}

// lines returns the lines that both handlers write for a record.
func lines(t *testing.T, r slog.Record) (ours, slogs string) {
	t.Helper()
	var a, b bytes.Buffer
	for _, h := range []slog.Handler{jsonlog.New(&a, slog.LevelInfo), slog.NewJSONHandler(&b, nil)} {
		if err := h.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	return a.String(), b.String()
}

func record(at time.Time, level slog.Level, message string, attrs ...slog.Attr) slog.Record {
	r := slog.NewRecord(at, level, message, 0)
	r.AddAttrs(attrs...)
	return r
}

func TestHandler_SameBytes(t *testing.T) {
	now := time.Now()
	for name, r := range map[string]slog.Record{
		"no attributes": record(now, slog.LevelInfo, "request"),
		"a request": record(now, slog.LevelInfo, "request", slog.String("listener", "public"),
			slog.String("method", "POST"), slog.String("route", "start"), slog.Int("status", 200),
			slog.Float64("took_ms", 0.123), slog.Int("bytes", -1), slog.Bool("whole", true),
			slog.String("client", "192.0.2.1")),
		"other levels": record(now, slog.LevelWarn+1, "m"),
		"a time zone":  record(now.In(time.FixedZone("x", 5400)), slog.LevelError, "m"),
		"no time":      record(time.Time{}, slog.LevelInfo, "m", slog.Int("a", 1)),
		"a far year":   record(time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC), slog.LevelInfo, "m"),
		"whole second": record(time.Unix(1, 0), slog.LevelInfo, "m"),
		"escapes": record(now, slog.LevelInfo, "a\"b\\c\n\x01\x7f<>&",
			slog.String("k\n", "\t\u2028…\xff")),
		"no key": record(now, slog.LevelInfo, "m", slog.String("", "v"), slog.Attr{}, slog.Int("b", 2)),
		"other values": record(now, slog.LevelInfo, "m", slog.Any("error", errors.New("e\"")),
			slog.Duration("d", time.Second), slog.Time("t", now), slog.Any("m", map[string]int{"a": 1}),
			slog.Uint64("u", math.MaxUint64), slog.Group("g", slog.Int("x", 1)), slog.Any("nil", nil)),
	} {
		if ours, want := lines(t, r); ours != want {
			t.Errorf("%s:\n%swant\n%s", name, ours, want)
		}
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 1, -1.5, 0.001, 1e-6, 9.99e-7, 1e20, 1e21, -1e-7,
		math.Pi, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.NaN()} {
		if ours, want := lines(t, record(now, slog.LevelInfo, "m", slog.Float64("f", f))); ours != want {
			t.Errorf("%v:\n%swant\n%s", f, ours, want)
		}
	}
}

func FuzzHandler(f *testing.F) {
	f.Add("request", "key", "value", 1.5, int64(3), int64(1700000000123456789))
	f.Fuzz(func(t *testing.T, message, key, value string, number float64, whole, at int64) {
		ours, want := lines(t, record(time.Unix(0, at), slog.LevelInfo, message, slog.String(key, value),
			slog.Float64("number", number), slog.Int64("whole", whole)))
		if ours != want {
			t.Errorf("%swant\n%s", ours, want)
		}
	})
}

func TestHandler_Logger(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(jsonlog.New(&out, slog.LevelWarn))
	log.Info("below the level")
	log.Warn("first", "n", 1)
	log.With("of", "all").WithGroup("g").Error("second", "n", 2)
	got := out.String()
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, `"msg":"first","n":1}`) ||
		!strings.Contains(got, `"msg":"second","of":"all","g":{"n":2}}`) {
		t.Errorf("log:\n%s", got)
	}
}

// whole counts the writes of whole lines, which must not overlap.
type whole struct {
	mu    sync.Mutex
	lines int
}

func (w *whole) Write(line []byte) (int, error) {
	if !w.mu.TryLock() {
		return 0, errors.New("two writes at the same time")
	}
	defer w.mu.Unlock()
	time.Sleep(time.Microsecond)
	if bytes.Count(line, []byte("\n")) == 1 && bytes.HasSuffix(line, []byte("}\n")) {
		w.lines++
	}
	return len(line), nil
}

func TestHandler_ConcurrentLines(t *testing.T) {
	var out whole
	h := jsonlog.New(&out, slog.LevelInfo)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for _, text := range []string{"plain", "not\nplain"} {
				r := record(time.Now(), slog.LevelInfo, text, slog.Int("i", i))
				if err := h.Handle(context.Background(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if out.lines != 100 {
		t.Errorf("%d whole lines, want 100", out.lines)
	}
}

func BenchmarkHandler(b *testing.B) {
	for name, h := range map[string]slog.Handler{"jsonlog": jsonlog.New(io.Discard, slog.LevelInfo),
		"slog": slog.NewJSONHandler(io.Discard, nil)} {
		b.Run(name, func(b *testing.B) {
			log := slog.New(h)
			for b.Loop() {
				log.LogAttrs(context.Background(), slog.LevelInfo, "request",
					slog.String("listener", "public"), slog.String("method", "POST"),
					slog.String("route", "start"), slog.String("path", "/v1/sessions/start"),
					slog.Int("status", 200), slog.Float64("took_ms", 0.123), slog.Int("bytes", 700),
					slog.String("request_id", "req_0123456789abcdef01234567"),
					slog.String("client", "192.0.2.1"), slog.String("publisher", "pub_bench"))
			}
		})
	}
}
