package stores

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/testenv"
)

// pgBouncer is a PgBouncer in transaction mode, with few connections to its server.
type pgBouncer struct {
	t      testing.TB
	port   int
	config string
	cmd    *exec.Cmd
}

// StartPgBouncer runs a PgBouncer in front of p. It ends with the test.
func StartPgBouncer(t testing.TB, p *Postgres) *pgBouncer {
	t.Helper()
	program := testenv.Program(t, "pgbouncer", "/usr/sbin/pgbouncer")
	b := &pgBouncer{t: t, port: FreePort(t), config: filepath.Join(p.dir, "pgbouncer.ini")}
	b.write(p)
	b.cmd = exec.Command(program, "-q", b.config)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	out, err := os.Create(filepath.Join(p.dir, "pgbouncer.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	b.cmd.Stdout, b.cmd.Stderr = out, out
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.cmd.Process.Kill(); b.cmd.Wait() })
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", b.Addr())
		if err == nil {
			c.Close()
			return b
		}
		if time.Since(start) > limit {
			text, _ := os.ReadFile(out.Name())
			t.Fatalf("pgbouncer does not answer: %v\n%s", err, text)
		}
	}
}

// Route sends all later connections to p, as an operator does after a failover.
func (b *pgBouncer) Route(p *Postgres) {
	b.t.Helper()
	b.write(p)
	if err := b.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		b.t.Fatal(err)
	}
}

func (b *pgBouncer) write(p *Postgres) {
	b.t.Helper()
	text := fmt.Sprintf(`[databases]
verge = host=127.0.0.1 port=%d dbname=verge user=verge
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
`, p.Port, b.port)
	if err := os.WriteFile(b.config, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Addr is host and port.
func (b *pgBouncer) Addr() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

// URL returns the URL of p with the address of the PgBouncer.
func (b *pgBouncer) URL(p *Postgres, schema string) string {
	return strings.Replace(p.URL(schema), p.Addr(), b.Addr(), 1) + "&pooler=transaction"
}
