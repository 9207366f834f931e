package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/verge-id/verge/core/internal/timestamp"
	"github.com/verge-id/verge/core/kv"
)

// LogMessage is the message of the log lines for entries.
const LogMessage = "audit"

// Logged returns a store that also logs each entry of a commit, so that an archive of the log keeps entries
// that are later deleted from the store.
func Logged(store kv.KV, log *slog.Logger) kv.KV {
	return &logged{KV: store, log: log, unknown: map[string]bool{}}
}

type logged struct {
	kv.KV
	log *slog.Logger

	mu      sync.Mutex
	unknown map[string]bool // transactions whose entries are logged and whose result is unknown
}

// line is a log line for an entry.
type line struct {
	Instance, Seq, Prev, Hash                 string
	ID, At, ActorKind, ActorID, ActorName     string
	Publisher, Operation, Target, Changes, Of string // Of: "unknown" if the store's reply was lost
}

// member is a field of a line, by its name in the log.
type member struct {
	name string
	text *string
}

// members returns the fields of a line in the order in which they are hashed. The hash is the last.
func (l *line) members() []member {
	return []member{
		{"instance", &l.Instance},
		{"seq", &l.Seq},
		{"prev", &l.Prev},
		{"id", &l.ID},
		{"at", &l.At},
		{"actor_kind", &l.ActorKind},
		{"actor_id", &l.ActorID},
		{"actor_name", &l.ActorName},
		{"publisher", &l.Publisher},
		{"operation", &l.Operation},
		{"target", &l.Target},
		{"changes", &l.Changes},
		{"commit", &l.Of},
		{"hash", &l.Hash},
	}
}

// attrs returns the fields that are not empty.
func (l *line) attrs() (attrs []slog.Attr) {
	for _, m := range l.members() {
		if *m.text != "" {
			attrs = append(attrs, slog.String(m.name, *m.text))
		}
	}
	return attrs
}

// sum returns the hash of the names and values of the line's fields, without the hash itself.
func (l *line) sum() string {
	h := sha256.New()
	all := l.members()
	for _, m := range all[:len(all)-1] {
		for _, text := range []string{m.name, *m.text} {
			// The length prefix separates the texts.
			h.Write([]byte(strconv.Itoa(len(text)) + ":" + text))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Commit implements kv.KV. A commit whose reply was lost may have been applied, so its entries are logged as
// well.
func (s *logged) Commit(ctx context.Context, tx kv.Tx) error {
	err := s.KV.Commit(ctx, tx)
	if tx.Partition != partition || err != nil && !errors.Is(err, kv.ErrUnknown) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, put := range tx.Puts {
		id, ok := strings.CutPrefix(put.Name, Entries)
		if !ok || s.unknown[tx.ID] || replaces(tx, put.Name) {
			continue
		}
		of := ""
		if err != nil {
			of = "unknown"
		}
		s.write(ctx, id, put.Value, of)
	}
	switch {
	case err == nil:
		delete(s.unknown, tx.ID)
	case len(s.unknown) < 1000: // after a second lost reply, no caller retries
		s.unknown[tx.ID] = true
	default:
		clear(s.unknown)
	}
	return err
}

// replaces reports whether a commit replaces an existing item, such as when entries are signed again.
func replaces(tx kv.Tx, name string) bool {
	for _, c := range tx.Checks {
		if c.Name == name && c.Tx != "" {
			return true
		}
	}
	return false
}

// write logs an entry.
func (s *logged) write(ctx context.Context, id string, value []byte, of string) {
	var e Entry
	if json.Unmarshal(value, &e) != nil {
		return // cannot happen: Puts wrote it
	}
	l := line{ID: id, At: timestamp.Text(e.At), ActorKind: e.Actor.Kind, ActorID: e.Actor.ID,
		ActorName: e.Actor.Name, Publisher: e.Publisher, Operation: e.Operation, Target: e.Target, Of: of}
	if len(e.Changes) > 0 {
		b, err := json.Marshal(e.Changes)
		if err != nil {
			return // cannot happen: strings always marshal
		}
		l.Changes = string(b)
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, LogMessage, l.attrs()...)
}

// Chained returns a handler that links the lines of entries in a chain: each line gets a number, the hash of
// the previous line, and a hash of that and of its own text. A line that is missing or changed in an archive
// breaks the chain (Chain). A chain starts with the first entry and has a random name. If an outer handler
// has already chained the same lines, this handler replaces that chain, so that a process with several guests
// has one chain.
func Chained(h slog.Handler, random io.Reader) slog.Handler {
	return chained{h, &chainEnd{random: random}}
}

type chained struct {
	slog.Handler
	end *chainEnd
}

// chainEnd is the last line of a chain.
type chainEnd struct {
	random io.Reader

	mu   sync.Mutex
	last line
}

// WithAttrs implements slog.Handler.
func (c chained) WithAttrs(attrs []slog.Attr) slog.Handler {
	return chained{c.Handler.WithAttrs(attrs), c.end}
}

// WithGroup implements slog.Handler.
func (c chained) WithGroup(name string) slog.Handler {
	if name == "" {
		return c
	}
	return chained{c.Handler.WithGroup(name), c.end}
}

// Handle implements slog.Handler.
func (c chained) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != LogMessage {
		return c.Handler.Handle(ctx, r)
	}
	var next line
	r.Attrs(func(a slog.Attr) bool {
		for _, m := range next.members() {
			if m.name == a.Key {
				*m.text = a.Value.String()
			}
		}
		return true
	})
	c.end.mu.Lock() // until the line is written, so that the lines are in order
	defer c.end.mu.Unlock()
	if err := c.end.extend(&next); err != nil {
		return err
	}
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	out.AddAttrs(next.attrs()...)
	return c.Handler.Handle(ctx, out)
}

// extend makes l the last line of the chain.
func (c *chainEnd) extend(l *line) error {
	l.Instance, l.Prev = c.last.Instance, c.last.Hash
	if l.Instance == "" {
		var random [8]byte
		if _, err := io.ReadFull(c.random, random[:]); err != nil {
			return fmt.Errorf("audit: reading randomness: %w", err)
		}
		l.Instance = hex.EncodeToString(random[:])
	}
	n, _ := strconv.Atoi(c.last.Seq)
	l.Seq = strconv.Itoa(n + 1)
	l.Hash = l.sum()
	c.last = *l
	return nil
}

// Chain checks the lines of a log. The zero Chain is ready to use.
type Chain struct {
	// Entries is the number of entries, and Instances the number of instances that wrote them.
	Entries, Instances int

	last map[string]line // of each instance
}

// Add checks the next line of the log. It returns the error of the line, or "". A line without an entry is
// skipped. The lines of one instance must be in order.
func (c *Chain) Add(text []byte) string {
	var o map[string]any
	at := strings.IndexByte(string(text), '{') // a collector may add a prefix
	if at < 0 || json.Unmarshal(text[at:], &o) != nil || o["msg"] != LogMessage {
		return ""
	}
	var l line
	for _, m := range l.members() {
		*m.text, _ = o[m.name].(string)
	}
	where := "instance " + l.Instance + ", entry " + l.Seq
	last, known := c.last[l.Instance]
	if c.last == nil {
		c.last = map[string]line{}
	}
	if !known {
		c.Instances++
	}
	c.Entries++
	c.last[l.Instance] = l
	n, err := strconv.Atoi(l.Seq)
	before, _ := strconv.Atoi(last.Seq)
	switch {
	case err != nil || l.Hash != l.sum():
		return where + " was changed: its hash does not match its text"
	case n <= before:
		return where + " comes after entry " + last.Seq + ": lines are repeated or in another order"
	case n > before+1 && known:
		return where + " follows entry " + last.Seq + ": " + strconv.Itoa(n-before-1) + " are missing"
	case n > 1 && !known:
		return where + " is the first one: " + strconv.Itoa(n-1) + " before it are missing"
	case l.Prev != last.Hash:
		return where + " does not continue entry " + last.Seq + ": an entry was replaced"
	}
	return ""
}
