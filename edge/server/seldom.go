package server

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"sync"
	"time"
)

// alikePeriod is how long one line stands for all lines of its kind. Clients that
// cause many refusals must not fill the log with them. Metrics count each.
const alikePeriod = 10 * time.Second

// alike has a seldom for each kind of line. Kinds come from a small fixed set.
type alike struct {
	mu    sync.Mutex
	kinds map[string]*seldom
}

func (a *alike) of(kind string) *seldom {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kinds == nil {
		a.kinds = map[string]*seldom{}
	}
	s := a.kinds[kind]
	if s == nil {
		s = &seldom{period: alikePeriod}
		a.kinds[kind] = s
	}
	return s
}

// seldomLog writes the first line of its kind in a period, with the number of lines
// that were left out since the line before.
func (l *listener) seldomLog(level slog.Level, kind, message string, attrs ...slog.Attr) {
	ctx := context.Background()
	if !l.s.log.Enabled(ctx, level) {
		return
	}
	skipped, ok := l.alike.of(kind).take(time.Now())
	if !ok {
		return
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Int("alike_left_out", skipped))
	}
	l.s.log.LogAttrs(ctx, level, message, attrs...)
}

// complaints is the log in which net/http reports faults of connections.
func (l *listener) complaints() *log.Logger { return log.New(complaints{l}, "", 0) }

type complaints struct{ l *listener }

func (c complaints) Write(line []byte) (int, error) {
	c.l.seldomLog(slog.LevelWarn, "net/http", c.l.s.withoutClient(string(bytes.TrimSpace(line))))
	return len(line), nil
}

// seldom lets one line through in a period.
type seldom struct {
	period time.Duration

	mu      sync.Mutex
	next    time.Time
	skipped int
}

// take reports whether a line may be written now, and how many were left out since
// the last one.
func (s *seldom) take(now time.Time) (skipped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.next) {
		s.skipped++
		return 0, false
	}
	skipped, s.skipped, s.next = s.skipped, 0, now.Add(s.period)
	return skipped, true
}
