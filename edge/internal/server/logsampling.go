package server

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"sync"
	"time"
)

// samplePeriod is the period in which one line represents all lines of its kind. Clients that cause many
// rejections must not fill the log. Metrics count all of them.
const samplePeriod = 10 * time.Second

// logSampler has a lineSampler for each kind of line. Kinds come from a small fixed set.
type logSampler struct {
	mu    sync.Mutex
	kinds map[string]*lineSampler
}

func (s *logSampler) forKind(kind string) *lineSampler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil {
		s.kinds = map[string]*lineSampler{}
	}
	sampler := s.kinds[kind]
	if sampler == nil {
		sampler = &lineSampler{period: samplePeriod}
		s.kinds[kind] = sampler
	}
	return sampler
}

// logSampled writes the first line of its kind in a period, with the number of lines left out since the
// previous one.
func (l *listener) logSampled(level slog.Level, kind, message string, attrs ...slog.Attr) {
	ctx := context.Background()
	if !l.s.log.Enabled(ctx, level) {
		return
	}
	skipped, ok := l.sampler.forKind(kind).allow(time.Now())
	if !ok {
		return
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Int("alike_left_out", skipped))
	}
	l.s.log.LogAttrs(ctx, level, message, attrs...)
}

// errorLog returns the logger in which net/http reports connection errors.
func (l *listener) errorLog() *log.Logger { return log.New(errorLogWriter{l}, "", 0) }

type errorLogWriter struct{ l *listener }

func (w errorLogWriter) Write(line []byte) (int, error) {
	w.l.logSampled(slog.LevelWarn, "net/http", w.l.s.withoutClient(string(bytes.TrimSpace(line))))
	return len(line), nil
}

// lineSampler allows one line per period.
type lineSampler struct {
	period time.Duration

	mu      sync.Mutex
	next    time.Time
	skipped int
}

// allow reports whether a line may be written now, and how many were left out since the last one.
func (s *lineSampler) allow(now time.Time) (skipped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.next) {
		s.skipped++
		return 0, false
	}
	skipped, s.skipped, s.next = s.skipped, 0, now.Add(s.period)
	return skipped, true
}
