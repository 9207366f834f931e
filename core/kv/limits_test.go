package kv_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
)

func TestValidate(t *testing.T) {
	long := strings.Repeat("n", kv.MaxName)
	big := make([]byte, kv.MaxValue)
	due := time.Unix(1, 0)
	for _, c := range []struct {
		name  string
		limit func(*kv.Tx)
		want  string // part of the error; empty: valid
	}{
		{"nothing but an ID and a partition", func(*kv.Tx) {}, ""},
		{"everything at its limit", func(tx *kv.Tx) {
			tx.ID = strings.Repeat("i", 64)
			tx.Partition = kv.Partition(long)
			tx.Checks = []kv.Check{{Name: long}}
			tx.Held = []kv.Held{{TaskID: long}}
			tx.Puts = []kv.Put{{Name: long, Value: big}, {Name: "!~"}}
			tx.Deletes = make([]string, kv.MaxTx-6)
			for i := range tx.Deletes {
				tx.Deletes[i] = long
			}
			tx.Schedule = []kv.Task{{ID: long, Due: due, Payload: big}}
			tx.Cancel = []string{long}
		}, ""},
		{"no ID", func(tx *kv.Tx) { tx.ID = "" }, "an ID of 0 bytes"},
		{"ID too long", func(tx *kv.Tx) { tx.ID = strings.Repeat("i", 65) }, "an ID of 65 bytes"},
		{"no partition", func(tx *kv.Tx) { tx.Partition = "" }, `partition "" is not a name`},
		{"too many parts of one kind", func(tx *kv.Tx) { tx.Cancel = make([]string, kv.MaxTx+1) },
			"65 parts"},
		{"too many parts together", func(tx *kv.Tx) {
			tx.Checks, tx.Held, tx.Puts = make([]kv.Check, 11), make([]kv.Held, 11), make([]kv.Put, 11)
			tx.Deletes, tx.Schedule, tx.Cancel = make([]string, 11), make([]kv.Task, 11), make([]string, 10)
		}, "65 parts"},
		{"empty name checked", func(tx *kv.Tx) { tx.Checks = []kv.Check{{}} }, `check of ""`},
		{"empty ID held", func(tx *kv.Tx) { tx.Held = []kv.Held{{}} }, `held task ""`},
		{"empty name put", func(tx *kv.Tx) { tx.Puts = []kv.Put{{}} }, `put to ""`},
		{"name too long", func(tx *kv.Tx) { tx.Puts = []kv.Put{{Name: long + "n"}} }, "which is not a name"},
		{"name with a space", func(tx *kv.Tx) { tx.Puts = []kv.Put{{Name: "a b"}} }, "which is not a name"},
		{"name with a control character", func(tx *kv.Tx) {
			tx.Deletes = []string{"a\x00b"}
		}, "which is not a name"},
		{"name beyond ASCII", func(tx *kv.Tx) { tx.Deletes = []string{"ä"} }, "which is not a name"},
		{"name with DEL", func(tx *kv.Tx) { tx.Cancel = []string{"a\x7f"} }, "is not a name"},
		{"value too long", func(tx *kv.Tx) {
			tx.Puts = []kv.Put{{Name: "a", Value: append(big, 0)}}
		}, `value of "a" has 65537 bytes`},
		{"payload too long", func(tx *kv.Tx) {
			tx.Schedule = []kv.Task{{ID: "t", Due: due, Payload: append(big, 0)}}
		}, `payload of task "t" has 65537 bytes`},
		{"task without ID", func(tx *kv.Tx) { tx.Schedule = []kv.Task{{Due: due}} }, `task "" is not a name`},
		{"task without due time", func(tx *kv.Tx) {
			tx.Schedule = []kv.Task{{ID: "t"}}
		}, `task "t" has no due time`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tx := kv.Tx{ID: "id", Partition: "p"}
			c.limit(&tx)
			err := tx.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v, want it accepted", err)
			case c.want != "" && (!errors.Is(err, kv.ErrUnavailable) ||
				!strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want ErrUnavailable and %q", err, c.want)
			}
		})
	}
}
