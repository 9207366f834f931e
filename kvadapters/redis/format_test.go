package redis

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
)

func FuzzDecode(f *testing.F) {
	f.Add(encodeItem("tx", 1234, []byte("value")))
	f.Add(encodeItem("tx", 0, nil))
	f.Add(encodeTask(-5, []byte("payload")))
	f.Add([]byte{})
	f.Add([]byte{version, 0, 0, 0, 0, 0, 0, 0, 0, 255, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		item, err := decodeItem(kv.Key{Partition: "p", Name: "n"}, string(b))
		if err != nil {
			if !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("item %x: %v", b, err)
			}
		}
		again, expires := encodeItem(item.Tx, expiry(item.Expires), item.Value), expiry(item.Expires)
		if err == nil && expires > 2 && expires < exact && !bytes.Equal(again, b) {
			t.Errorf("item %x comes back as %x", b, again)
		}
		task, err := decodeTask("t", string(b))
		if err != nil {
			if !errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("task %x: %v", b, err)
			}
		}
		encoded, due := encodeTask(ceil(task.Due), task.Payload), ceil(task.Due)
		if err == nil && due > -exact && due < exact && !bytes.Equal(encoded, b) {
			t.Errorf("task %x comes back as %x", b, encoded)
		}
	})
}

func TestRounding(t *testing.T) {
	for _, c := range []struct {
		at          time.Time
		floor, ceil int64
	}{
		{time.UnixMilli(5), 5, 5},
		{time.UnixMilli(5).Add(1), 5, 6},
		{time.UnixMilli(-5), -5, -5},
		{time.UnixMilli(-5).Add(1), -5, -4},
		{time.Unix(1<<60, 0), exact, exact},
		{time.Unix(-1<<60, 1), -exact, -exact + 1},
	} {
		if f, u := floor(c.at), ceil(c.at); f != c.floor || u != c.ceil {
			t.Errorf("%v is between %d and %d, want %d and %d", c.at, f, u, c.floor, c.ceil)
		}
	}
}

// The replies are from servers of several versions.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		answer  string
		nothing bool
	}{
		{"OOM command not allowed when used memory > 'maxmemory'.", true},
		{"OOM command not allowed when used memory > 'maxmemory'. script: 1d9d, on @user_script:68.", true},
		{
			"ERR Error running script (call to f_1d9d): @user_script:68: user_script: 68: " +
				"-OOM command not allowed when used memory > 'maxmemory'.",
			false,
		},
		{
			"ERR Error running script (call to f_1d9d): @user_script: 68: " +
				"WRONGTYPE Operation against a key holding the wrong kind of value",
			true,
		},
		{"READONLY You can't write against a read only replica.", true},
		{"LOADING Redis is loading the dataset in memory", true},
		{"CLUSTERDOWN Hash slot not served", true},
		{"MISCONF Redis is configured to save RDB snapshots", true},
		{"NOPERM User verge has no permissions to run the 'hset' command", true},
		{
			"ERR The user executing the script can't run this command or subcommand script: 1d9d, on " +
				"@user_script:11.",
			true,
		},
		{
			"ERR user_script:56: VERGEHALF NOPERM User verge has no permissions script: 1d9d, on " +
				"@user_script:56.",
			false,
		},
		{"ERR upstream failure", false},
		{"ERR something new", false},
	} {
		if advice, nothing := explain(c.answer); nothing != c.nothing || nothing && advice == "" {
			t.Errorf("%q: advice %q, nothing changed: %v", c.answer, advice, nothing)
		}
	}
}
