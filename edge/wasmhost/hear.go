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

// What a guest says may be wrong in every part, and be meant to harm: it comes
// from a module that somebody else may have built. It costs that guest its
// place and the module its probation, and nobody else anything. So it is heard
// under recover, by the rules of the ABI, and no more of it is taken than the
// core would ever say.
const (
	maxNotices = 256      // of one export
	maxMessage = 4 << 10  // bytes of a log line's message, and of a failure's text
	maxAttrs   = 64       // of a log line
	maxKey     = 64       // bytes of an attribute's name
	maxValue   = 8 << 10  // bytes of an attribute's value
	maxLine    = 32 << 10 // bytes of a line's attributes together
	maxHeaders = 128      // values of an answer's header
	maxHeader  = 64 << 10 // bytes of it
	maxID      = 128      // bytes of X-Request-Id, which access logs repeat
	maxLane    = kv.MaxName
)

// errPanicked says that a guest has found a fault of the host.
var errPanicked = errors.New("what it said made the host panic")

// hear takes what an export left in the outbox that was called for c. An error
// is why the guest cannot be relied on.
func (in *instance) hear(c *call, out []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			// The value may quote a request; its type and place are enough.
			err = fmt.Errorf("%w (%T): %s", errPanicked, v, debug.Stack())
		}
	}()
	notices := 0
	for len(out) > 0 {
		var rec abi.Record
		if rec, out, err = abi.ReadRecord(out); err != nil {
			return err
		}
		switch {
		case rec.Kind > abi.Respond:
			if notices++; notices > maxNotices {
				return fmt.Errorf("more than %d notices at once", maxNotices)
			}
			err = in.heed(rec)
		case rec.Request != c.id || in.calls[c.id] != c:
			err = fmt.Errorf("a record of request %d, which is not under way or not the one that was called for", rec.Request)
		case rec.Kind == abi.Respond:
			err = in.answered(c, rec.Body)
		case c.asking:
			err = errors.New("an effect of a request that waits for another one")
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

// answered ends a request. Where its effect is still under way, its context has
// to be over, or the host would go on for a request that nobody counts.
func (in *instance) answered(c *call, body []byte) error {
	if c.asking && c.ctx.Err() == nil {
		return errors.New("an answer to a request that waits for an effect")
	}
	delete(in.calls, c.id)
	if body == nil {
		c.finish(result{err: errNoResult})
	} else {
		c.finish(result{body: body})
	}
	return nil
}

// heed takes a notice. One of a kind that this host does not know is of a
// module that is newer.
func (in *instance) heed(rec abi.Record) error {
	p := &in.engine.ports
	switch rec.Kind {
	case abi.Log:
		l, err := abi.ReadLog(rec.Body)
		if err != nil {
			return err
		}
		level, message, attrs := lineOf(l)
		in.log.LogAttrs(context.Background(), level, message, attrs...)
	case abi.Count:
		p.count(host.CountName(string(rec.Body)))
	case abi.Wake:
		partition, due, err := abi.ReadWake(rec.Body)
		if err == nil && !effect.Plausible(due) {
			err = fmt.Errorf("a task that is due in %d s of our era", due.Unix())
		}
		if err != nil {
			return err
		}
		if slices.Contains(in.engine.partitions, partition) { // no runner looks after others
			p.wake(partition, due)
		}
	}
	return nil
}

// ours are the names of what a log line has from the host.
var ours = []string{slog.TimeKey, slog.LevelKey, slog.MessageKey, slog.SourceKey, moduleKey}

// moduleKey names the module in every line that is a guest's: whatever such a
// line says, it cannot be taken for one of the host.
const moduleKey = "module"

// lineOf is the line of a guest's record, of bounded size.
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

// levelOf is the level at or below n that logs of the host have.
func levelOf(n int8) slog.Level {
	for _, level := range []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo} {
		if slog.Level(n) >= level {
			return level
		}
	}
	return slog.LevelDebug
}

// plain is the value that JSON is of, or its text.
func plain(b []byte) any {
	var v any
	if len(b) > maxValue || json.Unmarshal(b, &v) != nil {
		return cut(string(b[:min(len(b), maxValue+1)]), maxValue)
	}
	return v
}

// cut is the beginning of a text.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// bounded is an error of which a guest or its module may have chosen the text.
type bounded struct{ error }

func (b bounded) Error() string { return cut(b.error.Error(), maxMessage) }
func (b bounded) Unwrap() error { return b.error }

// checkAnswer refuses an answer that the server could not send as it is. Names
// of headers have to be canonical: under another spelling of Content-Length or
// Transfer-Encoding a guest would decide where the answer ends.
func checkAnswer(p *web.Response) error {
	if p.Status < 200 || p.Status > 599 {
		return fmt.Errorf("an answer with status %d", p.Status)
	}
	values, size := 0, 0
	for name, all := range p.Header {
		if !httpguts.ValidHeaderFieldName(name) || textproto.CanonicalMIMEHeaderKey(name) != name {
			return fmt.Errorf("an answer with a header that is not named like one: %.40q", name)
		}
		values, size = values+max(len(all), 1), size+len(name)
		for _, v := range all {
			size += len(v)
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("an answer whose header %.40q is not text", name)
			}
		}
	}
	if id := p.Header.Get("X-Request-Id"); values > maxHeaders || size > maxHeader || len(id) > maxID {
		return fmt.Errorf("an answer with %d headers of %d bytes and a request id of %d bytes", values, size, len(id))
	}
	return nil
}

// checkJobs refuses jobs that are not what was asked for.
func checkJobs(j abi.Jobs, p kv.Partition, n int) error {
	if len(j.Jobs) > n || !effect.Plausible(j.Next) {
		return fmt.Errorf("%w: %d jobs where %d were asked for, the next at %d s", abi.ErrMalformed, len(j.Jobs), n, j.Next.Unix())
	}
	for _, job := range j.Jobs {
		if job.Partition != p || len(job.Lane) > maxLane || !effect.Plausible(job.Until) || !effect.Plausible(job.Task.Due) ||
			len(job.Task.ID) > kv.MaxName || len(job.Task.Payload) > kv.MaxValue {
			return fmt.Errorf("%w: a job that no store has", abi.ErrMalformed)
		}
	}
	return nil
}
