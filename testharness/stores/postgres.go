package stores

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/verge-id/verge/testharness/testenv"
)

// Postgres is a PostgreSQL server on a loopback port. Its superuser "verge" has no password, and it has a
// database of the same name.
type Postgres struct {
	Port int

	t    testing.TB
	dir  string // holds the data and the log
	as   *syscall.Credential
	args []string
	made bool      // its database is there
	cmd  *exec.Cmd // nil: it does not run
}

// StartPostgres runs a server that ends with the test. It survives kill -9, but no power cut, unless the
// args, which come last on its command line, say otherwise.
func StartPostgres(t testing.TB, args ...string) *Postgres {
	t.Helper()
	return startPostgres(t, testenv.Scratch, args)
}

// StartPostgresOnDisk runs a server that writes as PostgreSQL does by default, for measurements.
func StartPostgresOnDisk(t testing.TB) *Postgres {
	t.Helper()
	onDisk := func(name string) (string, func(), error) {
		dir, err := os.MkdirTemp("", "verge-"+name+"-")
		return dir, func() { os.RemoveAll(dir) }, err
	}
	return startPostgres(t, onDisk, []string{"fsync=on", "shared_buffers=128MB", "min_wal_size=80MB"})
}

// scratch makes a directory for a server, and returns a function that removes it.
type scratch func(name string) (dir string, remove func(), err error)

func startPostgres(t testing.TB, in scratch, args []string) *Postgres {
	t.Helper()
	postgresProgram(t, "postgres")
	p := newPostgres(t, in, args)
	if out, err := exec.Command("cp", "-a", emptyPostgres(t, p.as), p.data()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.Start()
	return p
}

// Replica runs a server that follows p under the given name.
func (p *Postgres) Replica(name string, args ...string) *Postgres {
	p.t.Helper()
	r := newPostgres(p.t, testenv.Scratch, args)
	backup := exec.Command(postgresProgram(p.t, "pg_basebackup"), "-D", r.data(), "-R", "-X", "stream",
		"-c", "fast", "--no-sync", "-d", p.URL("")+"?application_name="+name)
	backup.SysProcAttr = &syscall.SysProcAttr{Credential: r.as}
	backup.Env = []string{"HOME=" + r.dir}
	if out, err := backup.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	r.Start()
	return r
}

func newPostgres(t testing.TB, in scratch, args []string) *Postgres {
	t.Helper()
	// Other users may not enter t.TempDir.
	dir, remove, err := in("postgres")
	if err != nil {
		t.Fatal(err)
	}
	p := &Postgres{t: t, Port: FreePort(t), dir: dir, args: args, as: unprivileged(t)}
	owned(t, dir, p.as)
	t.Cleanup(func() { p.quit(); remove() })
	return p
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// unprivileged is the user of the server, which cannot run as root. Nil: the user who runs the test.
func unprivileged(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatalf("PostgreSQL does not run as root, and there is neither a user postgres nor nobody: %v", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func owned(t testing.TB, dir string, as *syscall.Credential) {
	t.Helper()
	if as == nil {
		return
	}
	if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
		t.Fatal(err)
	}
}

// postgresProgram finds a program of PostgreSQL. Debian installs most of them only next to the server.
func postgresProgram(t testing.TB, name string) string {
	t.Helper()
	program := testenv.Program(t, "postgres", "/usr/lib/postgresql/15/bin/postgres")
	server, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(server), name)
}

// emptyPostgres is a directory with the data of an empty server. To copy it takes a tenth of the time that
// it takes to make it. It is made once for each process and removed with the last test that uses it.
func emptyPostgres(t testing.TB, as *syscall.Credential) string {
	t.Helper()
	empty.Lock()
	defer empty.Unlock()
	empty.users++
	t.Cleanup(func() {
		empty.Lock()
		defer empty.Unlock()
		if empty.users--; empty.users == 0 {
			empty.remove()
			empty.dir = ""
		}
	})
	if empty.dir != "" {
		return filepath.Join(empty.dir, "data")
	}
	dir, remove, err := testenv.Scratch("postgres")
	if err != nil {
		t.Fatal(err)
	}
	empty.dir, empty.remove = dir, remove
	owned(t, dir, as)
	initdb := exec.Command(postgresProgram(t, "initdb"), "-D", filepath.Join(dir, "data"), "--no-sync",
		"--no-instructions", "-A", "trust", "-U", "verge", "-E", "UTF8", "--no-locale", "--wal-segsize=1")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "data")
}

var empty struct {
	sync.Mutex
	dir    string
	remove func()
	users  int
}

// Start runs the server again, on the same port and data, and returns when it answers.
func (p *Postgres) Start() {
	p.t.Helper()
	args := []string{"-D", p.data(), "-p", fmt.Sprint(p.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=16MB",
		"-c", "min_wal_size=4MB", "-c", "hot_standby=on",
		"-c", "dynamic_shared_memory_type=mmap"} // in its directory, where kill -9 leaves nothing behind
	for _, a := range p.args {
		args = append(args, "-c", a)
	}
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(postgresProgram(p.t, "postgres"), args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := p.connect("postgres")
		if err == nil {
			_, err = c.Exec(context.Background(), "SELECT 1")
			if err == nil && !p.made && !p.follows(c) {
				_, err = c.Exec(context.Background(), "CREATE DATABASE verge")
				p.made = err == nil
			}
			c.Close(context.Background())
		}
		if err == nil {
			return
		}
		if time.Since(start) > limit {
			text, _ := os.ReadFile(log.Name())
			p.t.Fatalf("postgres does not answer: %v\n%s", err, text)
		}
	}
}

func (p *Postgres) follows(c *pgx.Conn) bool {
	var follows bool
	err := c.QueryRow(context.Background(), "SELECT pg_is_in_recovery()").Scan(&follows)
	return err == nil && follows
}

func (p *Postgres) connect(database string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return pgx.Connect(ctx, fmt.Sprintf("postgres://verge@%s/%s?sslmode=disable", p.Addr(), database))
}

// Kill is kill -9 of the server and of all its processes.
func (p *Postgres) Kill() {
	if p.cmd == nil {
		return
	}
	if lives(p.cmd.Process.Pid) {
		freeze(p.t, p.cmd.Process) // so that it starts no other process meanwhile
	}
	children := p.children()
	for _, pid := range children {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.cmd = nil
	// The server does not start as long as one of them holds its memory.
	for _, pid := range children {
		for start := time.Now(); lives(pid) && time.Since(start) < limit; {
			time.Sleep(time.Millisecond)
		}
	}
}

// quit ends the server immediately. Unlike Kill, it lets the server release its shared memory.
func (p *Postgres) quit() {
	if p.cmd == nil {
		return
	}
	p.Thaw()
	p.cmd.Process.Signal(syscall.SIGQUIT)
	ended := time.AfterFunc(10*time.Second, func() { p.cmd.Process.Kill() })
	p.cmd.Wait()
	ended.Stop()
	p.cmd = nil
}

// lives reports whether there is such a process that has not ended.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}

// Stop ends the server in order, as an operator does: connections are closed, and replicas have everything.
func (p *Postgres) Stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Wait()
	p.cmd = nil
}

// Freeze stops all processes where they stand until Thaw; their connections stay.
func (p *Postgres) Freeze() {
	p.t.Helper()
	freeze(p.t, p.cmd.Process)
	for _, pid := range p.children() {
		if child, err := os.FindProcess(pid); err == nil {
			freeze(p.t, child)
		}
	}
}

// Thaw resumes the processes.
func (p *Postgres) Thaw() {
	for _, pid := range append(p.children(), p.cmd.Process.Pid) {
		syscall.Kill(pid, syscall.SIGCONT)
	}
}

// PIDs returns the numbers of the server's processes, its first one first.
func (p *Postgres) PIDs() []int { return append([]int{p.cmd.Process.Pid}, p.children()...) }

// children lists the processes that the server has started.
func (p *Postgres) children() (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	for _, name := range tasks {
		text, _ := os.ReadFile(name)
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Promote makes a replica the primary, and returns when it takes writes.
func (p *Postgres) Promote() {
	p.t.Helper()
	p.Do("SELECT pg_promote(true, 60)")
}

// Do runs a statement as the superuser and returns the first column of its first row, if it has one.
func (p *Postgres) Do(sql string, args ...any) any {
	p.t.Helper()
	c, err := p.connect("verge")
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close(context.Background())
	rows, err := c.Query(context.Background(), sql, args...)
	if err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
	defer rows.Close()
	var value any
	if rows.Next() {
		if values, err := rows.Values(); err == nil && len(values) > 0 {
			value = values[0]
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// Set changes a setting of this server alone, for all who are connected and all who come.
func (p *Postgres) Set(name, value string) {
	p.t.Helper()
	p.Do("ALTER SYSTEM SET " + name + " = '" + value + "'")
	p.Do("SELECT pg_reload_conf()")
	// The server's processes read its settings at different times.
	time.Sleep(200 * time.Millisecond)
}

// Hold runs a statement in a transaction that stays open, with its locks, until release is called.
func (p *Postgres) Hold(sql string) (release func()) {
	p.t.Helper()
	c, err := p.connect("verge")
	if err == nil {
		_, err = c.Exec(context.Background(), "BEGIN")
	}
	if err == nil {
		_, err = c.Exec(context.Background(), sql)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return func() { c.Close(context.Background()) }
}

// Addr is host and port.
func (p *Postgres) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.Port) }

// URL returns the URL for package postgres, with tables in the schema; without a schema, for any client.
func (p *Postgres) URL(schema string) string {
	url := "postgres://verge@" + p.Addr() + "/verge"
	if schema != "" {
		url += "?schema=" + schema
	}
	return url
}
