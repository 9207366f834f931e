package kv

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// scripted returns prepared results of commits and records the commits. Its other methods must not be
// called.
type scripted struct {
	KV
	answers []error
	seen    []Tx
}

func (s *scripted) Commit(_ context.Context, tx Tx) error {
	s.seen = append(s.seen, tx)
	if len(s.seen) > len(s.answers) {
		return errors.New("more commits than results in the script")
	}
	return s.answers[len(s.seen)-1]
}

func TestCommitSurely(t *testing.T) {
	tx := Tx{ID: "mine", Partition: "p", Checks: []Check{{Name: "a"}}, Puts: []Put{{Name: "a"}}}
	item := func(by string) Item { return Item{Key: Key{"p", "a"}, Tx: by} }
	other := &Conflict{Items: []Item{item("other")}}
	lease := &Conflict{Lost: []string{"task"}}
	empty := &Conflict{}
	weird := errors.New("weird")

	for _, c := range []struct {
		name    string
		answers []error
		want    error // nil: tx has certainly applied
		also    error // another error that it wraps
		commits int
	}{
		{"applied", []error{nil}, nil, nil, 1},
		{"another's write", []error{other}, other, nil, 1},
		{"lease lost", []error{lease}, lease, nil, 1},
		{
			"unavailable: nothing changed and no retry",
			[]error{ErrUnavailable},
			ErrUnavailable,
			nil,
			1,
		},
		{
			"applied, the reply lost: the second finds its own write",
			[]error{ErrUnknown, &Conflict{Items: []Item{item("mine")}}},
			nil,
			nil,
			2,
		},
		{"applied, the reply lost: the second finds its own write among others, and the lease that it ended",
			[]error{
				ErrUnknown,
				&Conflict{Items: []Item{item("other"), item("mine")}, Lost: []string{"task"}},
			}, nil, nil, 2},
		{"not applied, the reply lost: the second applies", []error{ErrUnknown, nil}, nil, nil, 2},
		{
			"not applied, the reply lost: another transaction came before the second",
			[]error{ErrUnknown, other},
			ErrUnknown,
			other,
			2,
		},
		{
			"not applied, the reply lost: another claim has the lease",
			[]error{ErrUnknown, lease},
			ErrUnknown,
			lease,
			2,
		},
		{"the reply lost: the checked item is missing", []error{ErrUnknown, empty}, ErrUnknown, empty, 2},
		{"both replies lost", []error{ErrUnknown, ErrUnknown}, ErrUnknown, nil, 2},
		{
			"the reply lost, then unavailable: the first may still have applied",
			[]error{ErrUnknown, ErrUnavailable},
			ErrUnknown,
			ErrUnavailable,
			2,
		},
		{"the reply lost, then an error without a name", []error{ErrUnknown, weird}, ErrUnknown, weird, 2},
	} {
		t.Run("contract 5, 503: "+c.name, func(t *testing.T) {
			store := &scripted{answers: c.answers}
			err := CommitSurely(context.Background(), store, tx)
			if c.want == nil && err != nil || !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if c.also != nil && !errors.Is(err, c.also) {
				t.Errorf("error %v does not wrap %v", err, c.also)
			}
			var conflict, wanted *Conflict
			if errors.As(err, &conflict) != (errors.As(c.want, &wanted) || errors.As(c.also, &wanted)) {
				t.Errorf("error %v: want a conflict only if a check or lease failed", err)
			}
			if len(store.seen) != c.commits {
				t.Errorf("%d commits, want %d", len(store.seen), c.commits)
			}
			for _, got := range store.seen {
				if !reflect.DeepEqual(got, tx) {
					t.Errorf("committed %+v, want the same transaction with the same ID", got)
				}
			}
		})
	}
}

func TestNewTxID(t *testing.T) {
	id, err := NewTxID(bytes.NewReader(bytes.Repeat([]byte{0xab}, 16)))
	if err != nil || id != strings.Repeat("ab", 16) {
		t.Errorf("id %q, %v, want all 128 bits in hexadecimal", id, err)
	}
	if id, err := NewTxID(bytes.NewReader(make([]byte, 15))); err == nil {
		t.Errorf("with only 15 random bytes it made %q, want an error", id)
	}
}

func TestConflictItem(t *testing.T) {
	c := &Conflict{
		Items: []Item{{Key: Key{"p", "a"}, Tx: "1"}, {Key: Key{"p", "b"}, Tx: "2"}},
		Lost:  []string{"t"},
	}
	if it, ok := c.Item("b"); !ok || it.Tx != "2" {
		t.Errorf("item b: %+v, %v", it, ok)
	}
	if it, ok := c.Item("t"); ok {
		t.Errorf("a lost task is returned as the item %+v", it)
	}
	for _, name := range []string{"a", "b", "t"} {
		if !strings.Contains(c.Error(), name) {
			t.Errorf("%q does not name %s", c.Error(), name)
		}
	}
}

func TestTxValidate(t *testing.T) {
	name := strings.Repeat("n", MaxName)
	due := time.Unix(1, 0)
	ok := func() Tx { return Tx{ID: "id", Partition: "p"} }
	for _, c := range []struct {
		name   string
		change func(*Tx)
		want   string // in the error, "" for no error
	}{
		{"the smallest", func(*Tx) {}, ""},
		{"everything at its limit", func(tx *Tx) {
			tx.ID, tx.Partition = strings.Repeat("i", 64), Partition(name)
			for range MaxTx - 5 {
				tx.Checks = append(tx.Checks, Check{Name: name})
			}
			tx.Held = []Held{{TaskID: name}}
			tx.Puts = []Put{{Name: name, Value: make([]byte, MaxValue)}}
			tx.Deletes, tx.Cancel = []string{name}, []string{name}
			tx.Schedule = []Task{{ID: name, Due: due, Payload: make([]byte, MaxValue)}}
		}, ""},
		{"no ID", func(tx *Tx) { tx.ID = "" }, "0 bytes"},
		{"a long ID", func(tx *Tx) { tx.ID = strings.Repeat("i", 65) }, "65 bytes"},
		{"no partition", func(tx *Tx) { tx.Partition = "" }, "partition"},
		{"a long partition", func(tx *Tx) { tx.Partition = Partition(name + "n") }, "partition"},
		{"too many parts", func(tx *Tx) { tx.Cancel = make([]string, MaxTx+1) }, "65 parts"},
		{"a check without name", func(tx *Tx) { tx.Checks = []Check{{}} }, "check"},
		{"a lease without task", func(tx *Tx) { tx.Held = []Held{{}} }, "held"},
		{"a put with a space", func(tx *Tx) { tx.Puts = []Put{{Name: "a b"}} }, "put"},
		{"a put outside ASCII", func(tx *Tx) { tx.Puts = []Put{{Name: "ä"}} }, "put"},
		{"a put with a control character", func(tx *Tx) { tx.Puts = []Put{{Name: "a\x7f"}} }, "put"},
		{"a value too long", func(tx *Tx) {
			tx.Puts = []Put{{Name: "a", Value: make([]byte, MaxValue+1)}}
		}, "65537 bytes"},
		{"a delete with a line feed", func(tx *Tx) { tx.Deletes = []string{"a\n"} }, "delete"},
		{"a task with a long ID", func(tx *Tx) { tx.Schedule = []Task{{ID: name + "n", Due: due}} }, "task"},
		{"a task without due time", func(tx *Tx) { tx.Schedule = []Task{{ID: "t"}} }, "due"},
		{"a payload too long", func(tx *Tx) {
			tx.Schedule = []Task{{ID: "t", Due: due, Payload: make([]byte, MaxValue+1)}}
		}, "65537 bytes"},
		{"a cancel without ID", func(tx *Tx) { tx.Cancel = []string{""} }, "cancelled"},
	} {
		t.Run("limits: "+c.name, func(t *testing.T) {
			tx := ok()
			c.change(&tx)
			err := tx.Validate()
			if c.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrUnavailable with %q", err, c.want)
			}
		})
	}
}
