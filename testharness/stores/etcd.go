package stores

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/verge-id/verge/testharness/kit"
)

// Etcd is a real etcd on loopback ports. The tests do not embed the server as a
// library: that would add 61 modules, the client adds 18.
type Etcd struct {
	Addr string // of clients, host:port

	t       testing.TB
	name    string
	program string
	args    []string

	mu  sync.Mutex
	cmd *exec.Cmd // nil: it does not run
	log bytes.Buffer
}

// Unsynced is an argument of a server that does not wait for the disk. Only a failure of the machine can lose
// what it has answered. It is for tests that are about something else.
const Unsynced = "--unsafe-no-fsync"

// StartEtcd runs one server that ends with the test.
func StartEtcd(t testing.TB, args ...string) *Etcd {
	t.Helper()
	return StartEtcdCluster(t, 1, args...)[0]
}

// EtcdCluster is servers that know each other.
type EtcdCluster []*Etcd

// StartEtcdTLS runs one server that speaks TLS at addr, only with clients that
// have the certificate, and plain HTTP at its Addr.
func StartEtcdTLS(t testing.TB, c Certificate) (e *Etcd, addr string) {
	t.Helper()
	addr = freePorts(t, 1)[0]
	cluster := startEtcd(t, 1, func(e *Etcd) []string {
		return []string{"--listen-client-urls", "http://" + e.Addr + ",https://" + addr,
			"--cert-file", c.CertFile, "--key-file", c.KeyFile, "--trusted-ca-file", c.CertFile,
			"--client-cert-auth"}
	})
	return cluster[0], addr
}

// StartEtcdCluster runs n servers that end with the test and returns when they answer.
func StartEtcdCluster(t testing.TB, n int, args ...string) EtcdCluster {
	t.Helper()
	return startEtcd(t, n, func(*Etcd) []string { return args })
}

func startEtcd(t testing.TB, n int, more func(*Etcd) []string) EtcdCluster {
	t.Helper()
	program := kit.Program(t, "etcd")
	ports := freePorts(t, 2*n)
	var cluster EtcdCluster
	var members []string
	for i := range n {
		name := fmt.Sprint("n", i)
		members = append(members, name+"=http://"+ports[2*i+1])
		cluster = append(cluster, &Etcd{t: t, name: name, Addr: ports[2*i], program: program})
	}
	for i, e := range cluster {
		peer := "http://" + ports[2*i+1]
		e.args = append([]string{
			"--name", e.name, "--data-dir", filepath.Join(t.TempDir(), "data"), "--logger", "zap",
			"--log-level",
			"error",
			"--listen-client-urls", "http://" + e.Addr, "--advertise-client-urls", "http://" + e.Addr,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-token", t.Name(),
		}, more(e)...)
		e.Start()
		t.Cleanup(e.Kill)
	}
	cluster.Wait()
	return cluster
}

// Start runs the server again on its ports and data. It does not wait for it:
// without a majority it would not answer.
func (e *Etcd) Start() {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cmd = exec.Command(e.program, e.args...)
	// The environment configures etcd as its flags do, so it gets an empty
	// one but for this variable, without which it refuses to run on arm64.
	e.cmd.Env = []string{"ETCD_UNSUPPORTED_ARCH=arm64"}
	e.cmd.Stderr = &e.log
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
}

// Kill is kill -9.
func (e *Etcd) Kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cmd != nil {
		e.cmd.Process.Kill()
		e.cmd.Wait()
		e.cmd = nil
	}
}

// Freeze stops the process where it stands until Thaw; its connections stay.
func (e *Etcd) Freeze() {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	freeze(e.t, e.cmd.Process)
}

// Thaw lets the process go on.
func (e *Etcd) Thaw() { e.signal(syscall.SIGCONT) }

func (e *Etcd) signal(s syscall.Signal) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.cmd.Process.Signal(s); err != nil {
		e.t.Fatal(err)
	}
}

func (e *Etcd) runs() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cmd != nil
}

// URL is what package etcd opens, for keys under the prefix.
func (e *Etcd) URL(prefix string) string { return "etcd://" + e.Addr + "/" + prefix }

// URL is what package etcd opens, for keys under the prefix.
func (c EtcdCluster) URL(prefix string) string {
	var addrs []string
	for _, e := range c {
		addrs = append(addrs, e.Addr)
	}
	return "etcd://" + strings.Join(addrs, ",") + "/" + prefix
}

// Client talks to the server without an adapter.
func (e *Etcd) Client() *clientv3.Client {
	e.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr}, Logger: zap.NewNop()})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close() })
	return c
}

// Wait returns when the server answers.
func (e *Etcd) Wait() {
	e.t.Helper()
	EtcdCluster{e}.Wait()
}

// Wait returns when all servers answer.
func (c EtcdCluster) Wait() {
	for _, e := range c {
		e.t.Helper()
		client := e.Client()
		for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := client.Get(ctx, "health")
			cancel()
			if err == nil {
				break
			}
			if time.Since(start) > time.Minute {
				e.Kill() // so that nobody writes the log any more
				e.t.Fatalf("etcd %s does not answer: %v\n%s", e.name, err, e.log.String())
			}
		}
	}
}

// Leader returns the server that leads.
func (c EtcdCluster) Leader() *Etcd {
	t := c[0].t
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(50 * time.Millisecond) {
		for _, e := range c {
			if !e.runs() {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			status, err := e.Client().Status(ctx, e.Addr)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				return e
			}
		}
	}
	t.Fatal("no etcd leads")
	return nil
}

func freePorts(t testing.TB, n int) []string {
	t.Helper()
	var out []string
	for range n {
		out = append(out, fmt.Sprintf("127.0.0.1:%d", FreePort(t)))
	}
	return out
}

// MoveLeader has the leader hand over to another server.
func (c EtcdCluster) MoveLeader() {
	t := c[0].t
	t.Helper()
	leader := c.Leader()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client := leader.Client()
	members, err := client.MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members.Members {
		if m.Name != leader.name {
			if _, err := client.MoveLeader(ctx, m.ID); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}
