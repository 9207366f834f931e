package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/testharness/stores"
)

// extent is the size of a store's content.
type extent struct {
	bytes, rows float64
	kept        [3]extentOf // items only, by the rest of their life; of PostgreSQL alone
}

// extentOf is the size of items that are kept for a similar time.
type extentOf struct{ rows, bytes float64 }

// classes are the upper limits of extent.kept.
var classes = [3]struct {
	name string
	life time.Duration
}{{"up to 1 hour", time.Hour}, {"7 days", 8 * 24 * time.Hour}, {"30 days", 60 * 24 * time.Hour}}

// store is a kind of store.
type store struct {
	name   string
	shared bool // several instances can use it
	open   func(t testing.TB) server
}

// server is the store of one measurement.
type server struct {
	url, addr   string
	version     string
	cpu         func() time.Duration
	size        func(d *deployment) extent // nil: unknown
	connections func() int                 // of all instances
}

// all are the kinds of stores. Each server writes to the disk of the temporary directory before it responds.
var all = []store{
	{"memory", false, func(testing.TB) server {
		return server{url: "memory", cpu: nothing, connections: none}
	}},
	{"bolt", false, openBolt},
	{"redis", true, openRedis},
	{"postgres", true, openPostgres},
}

func nothing() time.Duration { return 0 }
func none() int              { return 0 }

func openBolt(t testing.TB) server {
	path := filepath.Join(t.TempDir(), "verge.db")
	return server{url: "bolt:" + path, cpu: nothing, connections: none,
		size: func(d *deployment) extent { return sizeOfBolt(t, d, path) }}
}

// sizeOfBolt counts the content of a copy of the file, without its unused space. No process may have the file
// open, so the instance starts again.
func sizeOfBolt(t testing.TB, d *deployment, path string) extent {
	t.Helper()
	d.instances[0].stop()
	text, err := os.ReadFile(path)
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err == nil {
		err = os.WriteFile(copied, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := bolt.Compact(t.Context(), copied)
	if err != nil {
		t.Fatal(err)
	}
	d.instances[0] = d.start()
	return extent{bytes: float64(c.Bytes), rows: float64(c.Items + c.Tasks)}
}

func openRedis(t testing.TB) server {
	r := stores.StartRedis(t, append([]string{"--loglevel", "warning"}, stores.Durable...)...)
	info := func(name string) float64 {
		for line := range strings.Lines(fmt.Sprint(r.Do("info"))) {
			if value, found := strings.CutPrefix(line, name+":"); found {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		t.Fatalf("INFO has no %s", name)
		return 0
	}
	version := ""
	for line := range strings.Lines(fmt.Sprint(r.Do("info", "server"))) {
		if value, found := strings.CutPrefix(line, "redis_version:"); found {
			version = "Redis " + strings.TrimSpace(value)
		}
	}
	return server{url: r.URL(), addr: r.Addr(), version: version,
		cpu: func() time.Duration { return processorTime(t, r.PID()) },
		size: func(*deployment) extent {
			return extent{bytes: info("used_memory_dataset"), rows: float64(r.Do("dbsize").(int64))}
		},
		connections: func() int { return int(info("connected_clients")) - 1 }, // without this one
	}
}

func openPostgres(t testing.TB) server {
	p := stores.StartPostgresOnDisk(t)
	number := func(sql string, args ...any) float64 {
		n, ok := p.Do(sql, args...).(int64)
		if !ok {
			t.Fatalf("%s: no number", sql)
		}
		return float64(n)
	}
	return server{url: p.URL("verge"), addr: p.Addr(),
		version: fmt.Sprint("PostgreSQL ", p.Do("SHOW server_version")),
		cpu: func() (sum time.Duration) {
			for _, pid := range p.PIDs() {
				sum += processorTime(t, pid)
			}
			return sum
		},
		size: func(*deployment) (e extent) {
			p.Do("VACUUM FULL verge.items")
			p.Do("VACUUM FULL verge.tasks")
			e.bytes = number("SELECT pg_total_relation_size('verge.items') + " +
				"pg_total_relation_size('verge.tasks')")
			e.rows = number("SELECT (SELECT count(*) FROM verge.items) + (SELECT count(*) FROM verge.tasks)")
			after := time.Now()
			for i, class := range classes {
				until := time.Now().Add(class.life)
				e.kept[i] = extentOf{
					number("SELECT count(*) FROM verge.items WHERE expires > $1 AND expires <= $2",
						after.UnixNano(), until.UnixNano()),
					number("SELECT coalesce(sum(pg_column_size(i.*)), 0)::bigint FROM verge.items i "+
						"WHERE expires > $1 AND expires <= $2", after.UnixNano(), until.UnixNano())}
				after = until
			}
			return e
		},
		connections: func() int {
			return int(number("SELECT count(*) FROM pg_stat_activity WHERE datname = 'verge' AND " +
				"pid <> pg_backend_pid()"))
		},
	}
}
