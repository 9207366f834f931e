package audit

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// logFixture is a store whose entries are logged.
type logFixture struct {
	*testhost.Host
	log  bytes.Buffer
	kept kv.KV
}

func newLogFixture(t *testing.T) *logFixture {
	w := &logFixture{Host: testhost.New(t)}
	w.kept = Logged(w.Store, w.logger())
	return w
}

// logger returns the log of a process, chained twice, as if a guest ran in it.
func (w *logFixture) logger() *slog.Logger {
	process := Chained(slog.NewJSONHandler(&w.log, nil), w.Random)
	return slog.New(Chained(process.WithAttrs([]slog.Attr{slog.String("module", "m")}), w.Random))
}

func (w *logFixture) puts(t *testing.T, target string) []kv.Put {
	t.Helper()
	puts, err := Entry{Operation: "key.create", Actor: Actor{Kind: Operator, ID: "op_1", Name: "Ann"},
		Publisher: "pub_a", Target: target, Changes: []Change{{"name", "a", "b"}}}.Puts(w.Sealer, w.Random,
		w.Clock.Now())
	coretest.Must(t, err)
	return puts
}

func (w *logFixture) write(t *testing.T, target string) {
	t.Helper()
	id, err := kv.NewTxID(w.Random)
	coretest.Must(t, err)
	coretest.Must(t, w.kept.Commit(ctx, kv.Tx{ID: id, Partition: partition, Puts: w.puts(t, target)}))
}

func (w *logFixture) lines() []string {
	return strings.Split(strings.TrimSuffix(w.log.String(), "\n"), "\n")
}

func TestLogged_EntryIsALine(t *testing.T) {
	w := newLogFixture(t)
	w.write(t, "key_1")
	var said map[string]any
	coretest.Must(t, json.Unmarshal([]byte(w.lines()[0]), &said))
	entries, _, err := List(ctx, w.kept, w.Sealer, "", "", 1)
	coretest.Must(t, err)
	for member, want := range map[string]string{"msg": "audit", "seq": "1", "id": entries[0].ID,
		"at": "2026-11-20T22:10:00.000Z", "actor_kind": "operator", "actor_id": "op_1", "actor_name": "Ann",
		"publisher": "pub_a", "operation": "key.create", "target": "key_1",
		"changes": `[{"field":"name","from":"a","to":"b"}]`} {
		if member == "at" {
			want = entries[0].At.Format("2006-01-02T15:04:05.000Z07:00")
		}
		if said[member] != want {
			t.Errorf("contract 48: %s is %v, want %s", member, said[member], want)
		}
	}
	if len(w.lines()) != 1 || strings.Contains(w.log.String(), "mac") {
		t.Errorf("contract 48: one entry is %d lines: %s", len(w.lines()), &w.log)
	}
}

func TestLogged_NotNew(t *testing.T) {
	w := newLogFixture(t)
	puts := w.puts(t, "key_1")
	for name, tx := range map[string]kv.Tx{
		"contract 16: an entry that is signed again": {Partition: partition, Puts: puts[:1],
			Checks: []kv.Check{{Name: puts[0].Name, Tx: "v1"}}},
		"another item":      {Partition: partition, Puts: []kv.Put{{Name: "c/pub/a", Value: []byte(`{}`)}}},
		"another partition": {Partition: "p0", Puts: puts[:1]},
	} {
		w.log.Reset()
		tx.ID = "tx-" + name
		_ = w.kept.Commit(ctx, tx)
		if w.log.Len() > 0 {
			t.Errorf("%s is logged: %s", name, &w.log)
		}
	}
}

// The guests of a process share its chain.
func TestChained_Guests(t *testing.T) {
	w := newLogFixture(t)
	process := Chained(slog.NewJSONHandler(&w.log, nil), w.Random)
	for n := range 3 {
		guest := Logged(w.Store, slog.New(Chained(process.WithGroup("").WithAttrs(nil), w.Random)))
		coretest.Must(t, guest.Commit(ctx, kv.Tx{ID: "tx" + string(rune('0'+n)), Partition: partition,
			Puts: w.puts(t, "key")}))
	}
	var chain Chain
	for _, text := range w.lines() {
		if wrong := chain.Add([]byte(text)); wrong != "" {
			t.Errorf("contract 48: %s", wrong)
		}
	}
	if chain.Instances != 1 || chain.Entries != 3 {
		t.Errorf("contract 48: the guests make %d chains of %d entries", chain.Instances, chain.Entries)
	}
}

// After any fault, each stored entry is in the log once.
func TestLogged_Faults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []kvtest.Fault
		lines  int
		commit string
	}{
		{"refused", []kvtest.Fault{kvtest.Reject}, 0, ""},
		{"the reply is lost, and found", []kvtest.Fault{kvtest.LoseReply}, 1, `"commit":"unknown"`},
		{"both replies are lost", []kvtest.Fault{kvtest.LoseReply, kvtest.LoseReply}, 1, `"commit":"unknown"`},
		{"the request is lost", []kvtest.Fault{kvtest.LoseRequest}, 1, `"commit":"unknown"`},
	} {
		t.Run("contract 48: "+c.name, func(t *testing.T) {
			w := newLogFixture(t)
			w.Store.Decide = kvtest.Script(c.faults...)
			puts := w.puts(t, "key_1")
			_ = kv.CommitSurely(ctx, w.kept, kv.Tx{ID: "tx1", Partition: partition, Puts: puts,
				Checks: []kv.Check{{Name: puts[0].Name}}})
			if n := strings.Count(w.log.String(), "\n"); n != c.lines ||
				!strings.Contains(w.log.String(), c.commit) {
				t.Errorf("%d lines, want %d: %s", n, c.lines, &w.log)
			}
		})
	}
}

func TestChain(t *testing.T) {
	w := newLogFixture(t)
	for _, target := range []string{"a", "b", "c", "d"} {
		w.write(t, target)
		w.log.WriteString(`{"msg":"request","seq":"7"}` + "\nno JSON\n")
	}
	other := Logged(w.Store, w.logger())
	coretest.Must(t, other.Commit(ctx, kv.Tx{ID: "tx9", Partition: partition, Puts: w.puts(t, "e")}))
	all := w.lines()
	entry := func(n int) int { return 3 * n }
	for _, c := range []struct {
		name   string
		change func(lines []string) []string
		want   string
	}{
		{"unchanged", func(l []string) []string { return l }, ""},
		{"with a collector's prefix", func(l []string) []string {
			l[entry(1)] = "Nov 20 22:10:00 host verge[7]: " + l[entry(1)]
			return l
		}, ""},
		{"an entry is missing", func(l []string) []string { return slices.Delete(l, entry(1), entry(1)+1) },
			"entry 3 follows entry 1: 1 are missing"},
		{"the first is missing", func(l []string) []string { return l[1:] },
			"entry 2 is the first one: 1 before"},
		{"a text is changed", func(l []string) []string {
			l[entry(2)] = strings.Replace(l[entry(2)], `"target":"c"`, `"target":"x"`, 1)
			return l
		}, "entry 3 was changed"},
		{"a member is renamed", func(l []string) []string {
			l[entry(2)] = strings.Replace(l[entry(2)], `"actor_name"`, `"actor_nick"`, 1)
			return l
		}, "entry 3 was changed"},
		{"an entry is replaced, with a right hash", func(l []string) []string {
			handler := Chained(slog.NewJSONHandler(&w.log, nil), w.Random).(chained)
			var said map[string]string
			_ = json.Unmarshal([]byte(l[entry(0)]), &said)
			handler.end.last = line{Instance: said["instance"], Seq: "1", Hash: said["hash"]}
			w.log.Reset()
			(&logged{log: slog.New(handler)}).write(ctx, "id", w.puts(t, "forged")[0].Value, "")
			l[entry(1)] = w.lines()[0]
			return l
		}, "entry 3 does not continue entry 2"},
		{"two are swapped", func(l []string) []string {
			l[entry(1)], l[entry(2)] = l[entry(2)], l[entry(1)]
			return l
		}, "entry 3 follows entry 1: 1 are missing\nentry 2 comes after entry 3"},
		{"one occurs twice", func(l []string) []string { return slices.Insert(l, 1, l[0]) },
			"entry 1 comes after entry 1"},
	} {
		t.Run("contract 48: "+c.name, func(t *testing.T) {
			var chain Chain
			var found []string
			for _, text := range c.change(slices.Clone(all)) {
				if wrong := chain.Add([]byte(text)); wrong != "" {
					found = append(found, wrong)
				}
			}
			got := strings.Join(found, "\n")
			for want := range strings.SplitSeq(c.want, "\n") {
				if c.want == "" && got != "" || !strings.Contains(got, want) {
					t.Errorf("found %q, want %q", got, c.want)
				}
			}
			if c.want == "" && (chain.Entries != 5 || chain.Instances != 2) {
				t.Errorf("%d entries of %d instances, want 5 of 2", chain.Entries, chain.Instances)
			}
		})
	}
}
