package bench

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/settings"
)

const (
	edgeConnections = 16

	// bareWorker reads the body and writes n bytes. With how it first calls one object, as the Worker of
	// Verge does: read responds from memory, and write after one durable write. It is the share of the
	// platform.
	bareWorker = `import { DurableObject } from "cloudflare:workers";

const message = new Uint8Array(100);
let id;

export default { async fetch(request, env) {
  await request.arrayBuffer();
  const asked = new URL(request.url).searchParams, how = asked.get("how");
  if (how) await env.PARTITION.get(id ??= env.PARTITION.idFromName("0"))[how]("0", 1, message);
  return new Response("x".repeat(Number(asked.get("n"))));
} };

export class Partition extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.sql = ctx.storage.sql;
    this.sql.exec("CREATE TABLE IF NOT EXISTS items (name TEXT PRIMARY KEY, value BLOB NOT NULL)");
  }
  read() { return message; }
  write(name, kind, value) {
    this.sql.exec("INSERT INTO items VALUES (?, ?)", crypto.randomUUID(), value);
    return message;
  }
}

export class Limits extends DurableObject {}
`
)

// BenchmarkEdge measures the deployed Worker on workerd. The floor is a bare Worker that only responds. least
// is a bare Worker that also calls a Durable Object as often as Verge must: never for a start, once for a
// reconcile, from memory, and once for a validation, with a durable write. Only the processor time of workerd
// counts. workerd runs all Workers and objects of a process on one thread, so more partitions are not faster.
// The goal is 0.45 ms of processor time, and 1 ms for a validation.
func BenchmarkEdge(b *testing.B) {
	bare := workerd.Start(b, &workerd.Options{Bare: bareWorker})
	for _, partitions := range []int{1, 16} {
		s := deployEdge(b, partitions)
		for _, line := range []struct {
			name     string
			requests func(*edgeService, *testing.B) func(i int) []byte
			how      string // the bare Worker calls an object
		}{
			{"start", (*edgeService).starts, ""},
			{"reconcile", (*edgeService).reconciles, "read"},
			{"validate", (*edgeService).validates, "write"},
		} {
			b.Run(fmt.Sprintf("%s, %d partitions", line.name, partitions), func(b *testing.B) {
				requests := line.requests(s, b)
				sample := requests(b.N)
				size := len(askOnce(b, s.server.Addr, sample))
				bareWith := func(how string) work {
					path := fmt.Sprintf("/?n=%d&how=%s", size, how)
					return load(b, edgeConnections, bare.Addr, always(at(path, sample)))
				}
				// Only one of the two works at a time.
				busy := func() time.Duration { return busyOf(bare.PID()) + busyOf(s.server.PID()) }
				least := measure(b, b.N, busy, func(n int) error { return bareWith(line.how)(0, n) })
				compareCPU(b, busy, bareWith(""), load(b, edgeConnections, s.server.Addr, requests))
				b.ReportMetric(least.cpu, "least-cpu-ns/op")
			})
		}
	}
}

// at returns a request with another path.
func at(path string, request []byte) []byte {
	method, rest, _ := bytes.Cut(request, []byte(" "))
	_, rest, _ = bytes.Cut(rest, []byte(" "))
	return slices.Concat(method, []byte(" "+path+" "), rest)
}

// edgeService is a deployed Worker.
type edgeService struct {
	server     *workerd.Server
	key        string
	ring       host.Sealer
	partitions int
}

// deployEdge runs the deployed Worker, with limits that no benchmark reaches, and creates a key.
func deployEdge(b *testing.B, partitions int) *edgeService {
	b.Helper()
	s := &edgeService{partitions: partitions}
	keyring, err := keys()
	if err != nil {
		b.Fatal(err)
	}
	text, err := keyring.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	if s.ring, err = keyring.Ring(benchHost, rand.Reader, time.Now); err != nil {
		b.Fatal(err)
	}
	free := ratelimit.PerMinute(1_000_000_000)
	s.server = workerd.Start(b, &workerd.Options{Worker: &workerd.Worker{
		AdminHost: benchHost, // under /admin/
		Config: settings.Config{Config: core.Config{BaseURL: "http://" + benchHost, Dev: true,
			Partitions: partitions, Limits: web.Limits{PublicPerIP: free, PublicPerKey: free,
				StartsPerPublisher: free, SecretPerIP: free, ReconcilePerKey: free}}},
		Site: map[string]any{
			"publishers": []any{map[string]any{"id": publisher, "name": "Bench"}},
			"integrations": []any{map[string]any{"id": integration1, "publisher": publisher, "name": "Bench",
				"level": "L1", "challenge_age": 25, "method": "sandbox", "webhook_off": true}},
		},
		Secrets: map[string]string{"VERGE_KEYRING": string(text), "VERGE_OPERATOR_TOKEN": operatorToken},
	}})
	req, err := http.NewRequest("POST", "http://"+benchHost+"/admin/v1/keys",
		strings.NewReader(`{"publisher_id":"`+publisher+`"}`))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	resp, err := s.server.Client().Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var created struct{ Key string }
	if err == nil {
		err = json.Unmarshal(body, &created)
	}
	if s.key = created.Key; s.key == "" {
		b.Fatalf("no key: %d %s, %v", resp.StatusCode, body, err)
	}
	return s
}

func (s *edgeService) starts(*testing.B) func(int) []byte {
	return always(request("POST", web.StartPath, s.key, startBody))
}

func (s *edgeService) reconciles(b *testing.B) func(i int) []byte {
	all := make([][]byte, 64)
	for n := range all {
		_, text, err := newSession(s.ring, n%s.partitions)
		if err != nil {
			b.Fatal(err)
		}
		all[n] = request("GET", web.SessionsPath+text, s.key, "")
	}
	return func(i int) []byte { return all[i%len(all)] }
}

func (s *edgeService) validates(b *testing.B) func(i int) []byte {
	return validations(b, s.server.KV(), s.ring, s.key, s.partitions)
}
