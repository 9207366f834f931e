package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// recipe is a store as BACKUP.md takes it: with the paths, ports and users of a server that systemd runs.
type recipe struct {
	name     string
	heading  string   // of the document's part
	programs []string // that have to be installed
	user     string   // who runs the server
	unit     string
	server   string // the unit's command
	port     string
	prepare  string // makes what the server needs, and starts it
	url      string
	wipe     string // destroys what Verge has there
}

var recipes = []recipe{
	{
		name: "redis", heading: "Redis and Valkey", programs: []string{"redis-server", "redis-cli"},
		user: "redis", unit: "redis-server", port: "6379",
		server: "redis-server /etc/redis/redis.conf --daemonize no",
		prepare: `install -d -o redis -g redis /var/lib/redis
mkdir -p /etc/redis
printf '%s\n' 'dir /var/lib/redis' 'appendonly yes' 'appendfsync always' 'save 3600 1' >/etc/redis/redis.conf
chmod 644 /etc/redis/redis.conf
systemctl start redis-server
`,
		url:  "redis://127.0.0.1:6379",
		wipe: "redis-cli flushall\n",
	},
	{
		name: "postgres", heading: "PostgreSQL", programs: []string{"psql", "pg_dump", "pg_restore"},
		user: "postgres", unit: "postgresql", port: "5432",
		server: "postgres -D /var/lib/postgresql/data -c unix_socket_directories=/run/postgresql",
		prepare: `install -d -o postgres -g postgres /var/lib/postgresql /run/postgresql
runuser -u postgres -- initdb -D /var/lib/postgresql/data -A trust -E UTF8 --no-locale --no-sync
systemctl start postgresql
until runuser -u postgres -- psql --command 'CREATE ROLE verge LOGIN'; do sleep .1; done
runuser -u postgres -- psql --command 'CREATE DATABASE verge OWNER verge'
`,
		url: "postgres://verge@127.0.0.1/verge",
		// A later version of Verge has added the table since the backup.
		wipe: `runuser -u postgres -- psql --dbname verge --command 'TRUNCATE verge.items, verge.tasks, verge.version' \
	--command 'CREATE TABLE verge.later (a int)'
`,
	},
}

// recipeOf names the store in the environment of the process on a separate machine.
const recipeOf = "RECIPE_OF"

// TestRecipes_Backup runs the commands of BACKUP.md unchanged, on a separate machine: a backup,
// and after the store was wiped, a restore. An event that waited at the backup is delivered after the
// restore, and a token that was used before the backup stays used.
func TestRecipes_Backup(t *testing.T) {
	long.Skip(t, "TestRecipes_Backup")
	if name := os.Getenv(recipeOf); name != "" {
		for _, r := range recipes {
			if r.name == name {
				r.run(t)
			}
		}
		return
	}
	t.Parallel()
	needOwnMachine(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range r.programs {
				testenv.Program(t, name)
			}
			path := os.Getenv("PATH")
			if r.name == "postgres" { // Debian puts most of its programs next to the server only
				server, err := filepath.EvalSymlinks(
					testenv.Program(t, "postgres", "/usr/lib/postgresql/15/bin/postgres"))
				if err != nil {
					t.Fatal(err)
				}
				path += ":" + filepath.Dir(server)
			}
			if _, err := user.Lookup(r.user); err != nil {
				t.Skipf("SKIP: no user here can run the server: %v", err)
			}
			// The shell is the first process of the machine. When it ends, all others do.
			cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc",
				"--kill-child",
				"bash", "-c", `"$0" "$@"; exit $?`, self,
				"-test.run=^TestRecipes_Backup$", "-test.v", "-test.timeout=5m")
			cmd.Env = append(os.Environ(), recipeOf+"="+r.name,
				"PATH="+path+":/usr/local/sbin:/usr/sbin:/sbin")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "the restore is complete") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// systemctl stands for systemd's: systemctl start|stop UNIT.
const systemctl = `#!/bin/bash
pid=/run/$2.pid
case $1 in
start)
	setsid bash "/run/units/$2" >>"/run/$2.log" 2>&1 </dev/null &
	echo $! >"$pid"
	for n in $(seq 300); do
		(exec 3<>"/dev/tcp/127.0.0.1/$(cat /run/port)") 2>/dev/null && exit
		sleep .1
	done
	cat "/run/$2.log"
	exit 1 ;;
stop)
	kill "$(cat "$pid")"
	while kill -0 "$(cat "$pid")" 2>/dev/null; do sleep .05; done
	# runuser may end before the server does
	while (exec 3<>"/dev/tcp/127.0.0.1/$(cat /run/port)") 2>/dev/null; do sleep .05; done ;;
esac
`

// run does the recipe, in a process that has directories, a network and process numbers of its own.
func (r recipe) run(t *testing.T) {
	dir := t.TempDir()
	ours := filepath.Join(dir, "ours")
	t.Setenv("OURS", ours)
	t.Setenv("PATH", ours+":"+os.Getenv("PATH"))
	sh(t, dir, `mkdir etc lib mnt run ours
cp -a /etc/. etc
for d in etc:/etc lib:/var/lib mnt:/mnt run:/run; do mount --bind "${d%%:*}" "${d#*:}"; done
ip link set lo up
mkdir /mnt/backups /run/units
echo `+r.port+` >/run/port
echo 'exec runuser -u `+r.user+` -- `+r.server+`' >/run/units/`+r.unit+`
cat >ours/systemctl <<'EOF'
`+systemctl+`EOF
chmod 755 ours ours/systemctl
`+r.prepare)
	_, part, _ := strings.Cut(readText(t, "../../../../edge/deploy/BACKUP.md"), "\n## "+r.heading+"\n")
	part, _, _ = strings.Cut(part, "\n## ")
	backup, restore, _ := strings.Cut(part, "\nRestore")

	sink := newEvents(t)
	sink.trust(testSecret)
	var rejected atomic.Int64
	var opens atomic.Bool // until then the receiver returns 503
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !opens.Load() {
			rejected.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		sink.ServeHTTP(w, req)
	}))
	t.Cleanup(receiver.Close)
	site := newSite(t, r.url, receiver.URL+"/hooks", unlimited)
	in := site.start()
	waiting, _, err := in.start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}
	used, redirect, err := in.start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}
	token, err := in.approve(redirect)
	if err != nil {
		t.Fatal(err)
	}
	if valid, status, body := in.validate(token); !valid {
		t.Fatalf("validate: %d %s", status, body)
	}
	wait.Until(t, "a first attempt of each event", func() bool { return rejected.Load() >= 3 })

	sh(t, dir, commands(t, backup))
	since, _, err := in.start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}
	in.cmd.Process.Signal(syscall.SIGTERM)
	wait.For(in.ended)
	sh(t, dir, r.wipe)
	sh(t, dir, commands(t, restore))

	in = site.start()
	if valid, status, body := in.validate(token); valid || status != http.StatusConflict {
		t.Errorf("I1: a token that was used before the backup, after the restore: %d %s", status, body)
	}
	status, _, body, err := in.api("GET", "/api/v1/verify/sessions/"+used, nil)
	if err != nil || status != 200 || !strings.Contains(string(body), "COMPLETED") {
		t.Errorf("a session that was completed before the backup: %d %s %v", status, body, err)
	}
	opens.Store(true)
	wait.Until(t, "the events that waited at the backup", func() bool {
		return sink.has(waiting, "started") && sink.has(used, "started") && sink.has(used, "completed")
	})
	fresh, err := quietWalk(in.publisher)
	if err != nil {
		t.Errorf("a verification after the restore: %v", err)
	}
	wait.Until(t, "the events after the restore", func() bool {
		return sink.has(fresh, "started") && sink.has(fresh, "completed")
	})
	if sink.has(since, "started") {
		t.Error("the store has an event from after the backup: it was not restored")
	}
	for _, what := range sink.complaints() {
		t.Error(what)
	}
	in.cmd.Process.Signal(syscall.SIGTERM)
	wait.For(in.ended)
	t.Logf("the restore is complete at %v", time.Now())
}

// sh runs a script in the directory, which has to succeed.
func sh(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("bash", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\nof %s", err, out, script)
	}
}
