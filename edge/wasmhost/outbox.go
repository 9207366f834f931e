package wasmhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/textproto"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

// Limits of a guest's output. A guest may come from a module that someone else has built, so any part of
// its output may be wrong or hostile. Such a guest is replaced and its module fails its probation, but the
// rest is unaffected. So the host reads the outbox under recover and by the rules of the ABI, and accepts
// no more than the core would ever send.
const (
	maxNotices     = 256      // per outbox
	maxMessage     = 4 << 10  // bytes of a log message and of a failure's text
	maxAttrs       = 64       // per log line
	maxKey         = 64       // bytes of the name of an attribute or a method
	maxValue       = 8 << 10  // bytes of an attribute's value
	maxLine        = 32 << 10 // bytes of all attributes of a line
	maxHeaders     = 128      // values in a response's header
	maxHeader      = 64 << 10 // bytes of a response's header
	maxID          = 128      // bytes of X-Request-Id, which access logs contain
	maxDestination = kv.MaxName
)

// errPanicked is returned if a guest's record triggers a bug in the host.
var errPanicked = errors.New("its record made the host panic")

// handleOutbox handles the outbox of an export that was called for c. An error is the reason why the guest
// can no longer be trusted.
func (in *instance) handleOutbox(c *call, out []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			// The value may quote a request, so only its type and its stack are logged.
			err = fmt.Errorf("%w (%T): %s", errPanicked, v, debug.Stack())
		}
	}()
	notices := 0
	for len(out) > 0 {
		var rec abi.Record
		if rec, out, err = abi.Read.Record(out); err != nil {
			return err
		}
		switch {
		case rec.Kind > abi.Respond:
			if notices++; notices > maxNotices {
				return fmt.Errorf("more than %d notices in one outbox", maxNotices)
			}
			err = in.handleNotice(c, rec)
		case rec.Request != c.id || in.calls[c.id] != c:
			err = fmt.Errorf("a record of request %d, which is not in progress or not the one "+
				"that was called for",
				rec.Request)
		case rec.Kind == abi.Respond:
			err = in.answered(c, rec.Body)
		case c.asking:
			err = errors.New("an effect of a request that waits for another effect")
		default:
			c.asking = true
			go in.carryOut(c, rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answered ends a request. If an effect of the request is still in progress, its context must be done.
// Otherwise the host would continue to work for a request that it no longer counts.
func (in *instance) answered(c *call, body []byte) error {
	if c.asking && c.ctx.Err() == nil {
		return errors.New("a response to a request that waits for an effect")
	}
	delete(in.calls, c.id)
	if body == nil {
		c.finish(result{err: errNoResult})
	} else {
		c.finish(result{body: body})
	}
	return nil
}

// handleNotice handles a notice of an export that was called for c. A notice of an unknown kind comes from
// a module that is newer than this host.
func (in *instance) handleNotice(c *call, rec abi.Record) error {
	p := &in.engine.ports
	switch rec.Kind {
	case abi.Log:
		l, err := abi.Read.Log(rec.Body)
		if err != nil {
			return err
		}
		level, message, attrs := lineOf(l)
		in.log.LogAttrs(context.Background(), level, message, attrs...)
	case abi.Count:
		p.Count(host.CountName(string(rec.Body)))
	case abi.Measure:
		t, err := abi.Read.MethodEvent(rec.Body)
		if err != nil {
			return err
		}
		p.Measure(host.NewMeasurement(cut(t.Method, maxKey), t.Event, t.Reason))
	case abi.UsageEvent:
		t, err := abi.Read.UsageEvent(rec.Body)
		if err != nil {
			return err
		}
		if t.Valid() { // an invalid usage event comes from a module that is newer than this host, or hostile
			p.CountUsage(t)
		}
	case abi.About:
		a, err := abi.Read.About(rec.Body)
		if err != nil {
			return err
		}
		if rec.Request == c.id {
			p.About(c.ctx, a.Sanitized())
		}
	case abi.Wake:
		partition, due, err := abi.Read.Wake(rec.Body)
		if err == nil && !effect.Plausible(due) {
			err = fmt.Errorf("a task that is due %d s after 1970", due.Unix())
		}
		if err != nil {
			return err
		}
		if slices.Contains(in.engine.partitions, partition) { // other partitions have no runner
			p.Wake(partition, due)
		}
	}
	return nil
}

// ours are the names of the attributes that the host adds to a log line.
var ours = []string{slog.TimeKey, slog.LevelKey, slog.MessageKey, slog.SourceKey, moduleKey}

// moduleKey is the attribute with the module in every log line of a guest. So such a line cannot be
// mistaken for the host's.
const moduleKey = "module"

// lineOf returns the log line of a guest's record, limited in size.
func lineOf(l abi.LogRecord) (slog.Level, string, []slog.Attr) {
	attrs := make([]slog.Attr, 0, min(len(l.Attrs), maxAttrs))
	room := maxLine
	for _, a := range l.Attrs {
		size := min(len(a.Key), maxKey) + min(len(a.Value), maxValue)
		if len(attrs) == maxAttrs || size > room {
			break
		}
		room -= size
		key := cut(a.Key, maxKey)
		if slices.ContainsFunc(ours, func(own string) bool { return strings.EqualFold(own, key) }) {
			key = "guest." + key
		}
		attrs = append(attrs, slog.Any(key, plain(a.Value)))
	}
	return levelOf(l.Level), cut(l.Message, maxMessage), attrs
}

// levelOf returns the host's highest log level that is not above n.
func levelOf(n int8) slog.Level {
	for _, level := range []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo} {
		if slog.Level(n) >= level {
			return level
		}
	}
	return slog.LevelDebug
}

// plain returns the JSON value in b, or its text if it is not JSON.
func plain(b []byte) any {
	var v any
	if len(b) > maxValue || json.Unmarshal(b, &v) != nil {
		return cut(string(b[:min(len(b), maxValue+1)]), maxValue)
	}
	return v
}

// cut returns the first n bytes of a text, marked with "…" if it is longer.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// bounded limits the text of an error, which a guest or its module may have chosen.
type bounded struct{ error }

func (b bounded) Error() string { return cut(b.error.Error(), maxMessage) }
func (b bounded) Unwrap() error { return b.error }

// checkResponse rejects a response that the server could not send unchanged. Header names must be canonical:
// with another spelling of Content-Length or Transfer-Encoding, a guest would control where the response
// ends.
func checkResponse(p *web.Response) error {
	if p.Status < 200 || p.Status > 599 {
		return fmt.Errorf("a response with status %d", p.Status)
	}
	values, size := 0, 0
	for name, all := range p.Header {
		if !httpguts.ValidHeaderFieldName(name) || textproto.CanonicalMIMEHeaderKey(name) != name {
			return fmt.Errorf("a response with an invalid header name: %.40q", name)
		}
		values, size = values+max(len(all), 1), size+len(name)
		for _, v := range all {
			size += len(v)
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("a response whose header %.40q is not text", name)
			}
		}
	}
	if id := p.Header.Get("X-Request-Id"); values > maxHeaders || size > maxHeader || len(id) > maxID {
		return fmt.Errorf("a response with %d headers of %d bytes and a request id of %d bytes",
			values, size, len(id))
	}
	return nil
}

// checkJobs rejects jobs that were not asked for.
func checkJobs(j abi.Jobs, p kv.Partition, n int) error {
	if len(j.Jobs) > n || !effect.Plausible(j.Next) {
		return fmt.Errorf("%w: %d jobs where %d were asked for, the next at %d s",
			abi.ErrMalformed, len(j.Jobs), n, j.Next.Unix())
	}
	for _, job := range j.Jobs {
		timed := effect.Plausible(job.Until) && effect.Plausible(job.Task.Due)
		if job.Partition != p || len(job.Destination) > maxDestination || !timed ||
			len(job.Task.ID) > kv.MaxName || len(job.Task.Payload) > kv.MaxValue {
			return fmt.Errorf("%w: a job's partition, destination, time or size is out of range",
				abi.ErrMalformed)
		}
	}
	return nil
}
