package stores

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/kit"
)

// StartPgBouncer runs a PgBouncer in transaction mode in front of p, with few connections to it. It returns
// its address, and ends with the test.
func StartPgBouncer(t testing.TB, p *Postgres) (addr string) {
	t.Helper()
	program := kit.Program(t, "pgbouncer", "/usr/sbin/pgbouncer")
	port := FreePort(t)
	config := filepath.Join(p.dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
verge = host=127.0.0.1 port=%d dbname=verge user=verge
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
`, p.Port, port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-q", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	out, err := os.Create(filepath.Join(p.dir, "pgbouncer.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return addr
		}
		if time.Since(start) > 10*time.Second {
			text, _ := os.ReadFile(out.Name())
			t.Fatalf("pgbouncer does not answer: %v\n%s", err, text)
		}
	}
}
