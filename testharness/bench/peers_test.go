package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/stores"
)

// peersVariable names the directory with the node_modules of the peers: see the target bench-peers of the
// Makefile. They are no part of this repository.
const peersVariable = "VERGE_PEERS"

// oidcProvider runs npm's oidc-provider with its store in memory and one client.
const oidcProvider = `import { Provider } from 'oidc-provider';
const port = Number(process.argv[2]);
const provider = new Provider('http://127.0.0.1:' + port, {
  clients: [{ client_id: 'bench', client_secret: 'bench_bench_bench_bench_bench_32',
    redirect_uris: ['https://shop.example/return'] }],
  cookies: { keys: ['bench_bench_bench_bench_bench_32'] },
});
provider.listen(port, '127.0.0.1');
`

// BenchmarkPeers compares Verge with other programs that users could run instead. Both do the first request
// of a verification: a start without a webhook, and an authorization request that redirects to a login. Both
// keep their data in memory. oidc-provider runs on one thread, so only the cpu-ratio counts: its processor
// time divided by Verge's, both with the load's. The goal is 10.
func BenchmarkPeers(b *testing.B) {
	dir := os.Getenv(peersVariable)
	if dir == "" {
		b.Skip("SKIP: make bench-peers installs the peers and sets " + peersVariable)
	}
	b.Run("start, oidc-provider", func(b *testing.B) {
		addr, pid := startPeer(b, dir)
		authorize := request("GET", "/auth?client_id=bench&response_type=code&scope=openid"+
			"&redirect_uri=https%3A%2F%2Fshop.example%2Freturn&state=q7Zk1v0mXo2hT5c8"+
			"&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256", "", "")
		s := newService(b, onMemory(b), "")
		compare(b, func() time.Duration { return busy() + busyOf(pid) },
			loadFor(b, "303", connections, addr, always(authorize)),
			load(b, connections, s.addr, starts(s, b)))
	})
	for name, reason := range map[string]string{
		"code exchange, Dex":  "the latest version that could be had as a Go module is 2.13.0, of 2018",
		"deliveries, Outpost": "github.com/hookdeck/outpost could not be had as a Go module",
	} {
		b.Run(name, func(b *testing.B) { b.Skip("SKIP: " + reason) })
	}
}

// startPeer runs oidc-provider until the benchmark ends.
func startPeer(b *testing.B, dir string) (addr string, pid int) {
	b.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		b.Skip("SKIP: no node in the PATH")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "oidc-provider")); err != nil {
		b.Skipf("SKIP: oidc-provider is not installed: %v", err)
	}
	script := filepath.Join(dir, "provider.mjs")
	if err := os.WriteFile(script, []byte(oidcProvider), 0o600); err != nil {
		b.Fatal(err)
	}
	port := stores.FreePort(b)
	cmd := exec.Command(node, script, fmt.Sprint(port))
	cmd.Env = append(os.Environ(), "NODE_ENV=production")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := dial(addr); err == nil {
			c.Close()
			return addr, cmd.Process.Pid
		}
		if time.Now().After(end) {
			b.Fatal("oidc-provider does not listen within 30 s")
		}
	}
}
