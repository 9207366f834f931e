package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/testharness/kit"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/abi"
)

const (
	edgeConnections = 16
	edgeHost        = "verge.test"
	edgeToken       = "op_only_for_the_bench_of_the_edge"

	// bareWorker reads the body and writes n bytes. With how it first asks one object, as the Worker of
	// Verge does: read is answered from memory, and write after one durable write. So it shows what the
	// platform alone takes.
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

// edgeLine is a request whose price at the edge is measured.
type edgeLine struct {
	name       string
	partitions int
	// what a bare Worker must ask of an object for it
	how  string
	goal float64                                            // ms of CPU an answer; 0: as measured
	next func(s *edgeService, n int) (func() []byte, error) // of n requests at least
}

var edgeLines = []edgeLine{
	{"edge, start", 1, "", 0.45, (*edgeService).starts},
	{"edge, reconcile", 1, "read", 0.45, (*edgeService).reconciles},
	{"edge, validate", 1, "write", 1, (*edgeService).validates},
	{"edge, start, 16 partitions", 16, "", 0.45, (*edgeService).starts},
	{"edge, reconcile, 16 partitions", 16, "read", 0.45, (*edgeService).reconciles},
	{"edge, validate, 16 partitions", 16, "write", 1, (*edgeService).validates},
}

// edgeNames is the names of all lines, one to a line.
func edgeNames() string {
	var b strings.Builder
	for _, l := range edgeLines {
		fmt.Fprintln(&b, l.name)
	}
	return b.String()
}

// edgeText explains the table of the edge.
const edgeText = `bare: a Worker that only answers. least: one that also asks a Durable Object as often as Verge must.
For start that is never, for reconcile once, answered from memory, and for validate once, with a durable
write.
workerd runs all Workers and objects of a process on one thread, so more partitions show no gain here.`

// onWorkerd prints what an answer of the deployed Worker takes on workerd, beside two bare Workers in
// the same rounds: one that only answers, and one that asks an object as often as the line must (least).
// The load runs on the same processors and is not counted: CPU is workerd's alone.
func onWorkerd(length time.Duration, module []byte, only string) error {
	program, err := exec.LookPath("workerd")
	if err != nil {
		fmt.Println("nothing is measured at the edge:", err)
		return nil
	}
	bare, err := openEdge(program, nil, &workerd.Options{Bare: bareWorker})
	if err != nil {
		return err
	}
	defer bare.close()
	services := map[int]*edgeService{}
	defer func() {
		for _, s := range services {
			s.close()
		}
	}()
	fmt.Println(edgeText)
	fmt.Printf("%-32s %8s %8s %8s %8s %8s %6s %8s %6s\n", "workerd, 16 connections",
		"a second", "of bare", "CPU ms", "goal", "bare", "ratio", "least", "ratio")
	for _, line := range edgeLines {
		if !strings.Contains(line.name, only) {
			continue
		}
		s := services[line.partitions]
		if s == nil {
			if s, err = deployEdge(program, module, line.partitions); err != nil {
				return err
			}
			services[line.partitions] = s
		}
		if err := s.measure(line, bare, length); err != nil {
			return fmt.Errorf("%s: %w", line.name, err)
		}
	}
	fmt.Println()
	return nil
}

func (s *edgeService) measure(line edgeLine, bare *edgeService, length time.Duration) error {
	next, err := line.next(s, s.enough(edgeFirst, length))
	if err != nil {
		return err
	}
	method, path, body := parts(next())
	size, err := sizeOf(s.server.Addr, method, path, s.key, body)
	if err != nil {
		return err
	}
	answer := func(how string) func() []byte {
		return always(request(method, "/?n="+strconv.Itoa(size)+"&how="+how, s.key, body))
	}
	var rate, bareRate, cpu, bareCPU, leastCPU, ratio, leastRatio []float64
	v, err := s.pace(length, next) // the first answers compile
	if err != nil {
		return err
	}
	for range rounds {
		if next, err = line.next(s, s.enough(max(v.rate, edgeFirst), length)); err != nil {
			return err
		}
		b, err := bare.pace(length, answer(""))
		if err != nil {
			return err
		}
		least := b
		if line.how != "" {
			if least, err = bare.pace(length, answer(line.how)); err != nil {
				return err
			}
		}
		if v, err = s.pace(length, next); err != nil {
			return err
		}
		rate, bareRate = append(rate, v.rate), append(bareRate, b.rate)
		cpu, bareCPU, leastCPU = append(cpu, v.cpu/1000), append(bareCPU, b.cpu/1000),
			append(leastCPU, least.cpu/1000)
		ratio, leastRatio = append(ratio, v.cpu/b.cpu), append(leastRatio, v.cpu/least.cpu)
	}
	fmt.Printf("%-32s %8.0f %8.0f %8.2f %8.2f %8.2f %6.1f %8.2f %6.1f\n", line.name,
		median(rate), median(bareRate), median(cpu), line.goal,
		median(bareCPU), median(ratio), median(leastCPU), median(leastRatio))
	return nil
}

// edgeFirst is how many answers a second are expected before any were measured.
const edgeFirst = 1_000

// enough is how many single-use requests a round needs if it is twice as fast as the one before.
func (s *edgeService) enough(rate float64, length time.Duration) int {
	return edgeLeast + edgeConnections + int(2*rate*length.Seconds())
}

// edgeService is a Worker and the directory that it lies in.
type edgeService struct {
	server     *workerd.Server
	dir        string
	key        string
	ring       *token.Ring
	partitions int
}

func openEdge(program string, module []byte, o *workerd.Options) (*edgeService, error) {
	dir, err := os.MkdirTemp("", "verge-bench-edge-")
	if err != nil {
		return nil, err
	}
	server, err := workerd.Open(program, module, dir, o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &edgeService{server: server, dir: dir}, nil
}

func (s *edgeService) close() {
	s.server.Close()
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// deployEdge runs the deployed Worker, its limits out of the way, and makes a key.
func deployEdge(program string, module []byte, partitions int) (*edgeService, error) {
	kr, err := token.GenerateKeyring(rand.Reader, time.Now())
	if err != nil {
		return nil, err
	}
	keyring, err := kr.Marshal()
	if err != nil {
		return nil, err
	}
	ring, err := kr.Ring(edgeHost, rand.Reader, time.Now)
	if err != nil {
		return nil, err
	}
	const free = 1_000_000_000
	s, err := openEdge(program, module, &workerd.Options{Worker: &workerd.Worker{
		AdminHost: edgeHost, // under /admin/
		Config: abi.Config{BaseURL: "http://" + edgeHost, Dev: true, Partitions: partitions,
			PublicPerIP: free, PublicPerKey: free, StartsPerPublisher: free, SecretPerIP: free,
			ReconcilePerKey: free},
		Site: map[string]any{
			"publishers": []any{map[string]any{"id": publisher, "name": "Bench"}},
			"integrations": []any{map[string]any{"id": integration1, "publisher": publisher, "name": "Bench",
				"level": "L1", "challenge_age": 25, "method": "sandbox", "webhook_off": true}},
		},
		Secrets: map[string]string{"VERGE_KEYRING": string(keyring), "VERGE_OPERATOR_TOKEN": edgeToken},
	}})
	if err != nil {
		return nil, err
	}
	s.ring, s.partitions = ring, partitions
	if s.key, err = s.makeKey(); err != nil {
		err = fmt.Errorf("%w\n%s", err, s.server.Log())
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *edgeService) makeKey() (string, error) {
	req, err := http.NewRequest("POST", "http://"+edgeHost+"/admin/v1/keys",
		strings.NewReader(`{"publisher_id":"`+publisher+`"}`))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+edgeToken)
	resp, err := s.server.Client().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var made struct{ Key string }
	if err := json.Unmarshal(b, &made); err != nil || made.Key == "" {
		return "", fmt.Errorf("no key: %d %s", resp.StatusCode, bytes.TrimSpace(b))
	}
	return made.Key, nil
}

// pace is loop over the edge's connections, with workerd's CPU. On a busy machine it goes on until there
// are enough answers to measure.
func (s *edgeService) pace(length time.Duration, next func() []byte) (pace, error) {
	before, begin, answers := busyOf(s.server.PID()), time.Now(), 0.0
	for answers < edgeLeast {
		round := time.Now()
		rate, err := loopOver(edgeConnections, s.server.Addr, length, next)
		if err != nil {
			return pace{}, err
		}
		answers += rate * time.Since(round).Seconds()
	}
	cpu := busyOf(s.server.PID()) - before
	return pace{answers / time.Since(begin).Seconds(), float64(cpu.Microseconds()) / answers}, nil
}

// edgeLeast is the least number of answers by which CPU time is measured.
const edgeLeast = 500

// session makes the id of a session that a start could have made just now, in the nth partition.
func (s *edgeService) session(n int) (session.ID, error) {
	return session.NewID(rand.Reader, integration1, session.L1, 25, time.Now(),
		session.Partition(n%s.partitions))
}

func (s *edgeService) starts(int) (func() []byte, error) {
	return always(request("POST", api.StartPath, s.key, startBody)), nil
}

func (s *edgeService) reconciles(int) (func() []byte, error) {
	all := make([][]byte, 64)
	for n := range all {
		id, err := s.session(n)
		if err != nil {
			return nil, err
		}
		text, err := id.Format(s.ring)
		if err != nil {
			return nil, err
		}
		all[n] = request("GET", api.SessionsPath+text, s.key, "")
	}
	return around(all), nil
}

// validates completes n sessions in what the Worker keeps, before the clock starts.
func (s *edgeService) validates(n int) (func() []byte, error) {
	all, store := make([][]byte, n), s.server.KV()
	var at atomic.Int64
	complete := func() error {
		for {
			n := int(at.Add(1)) - 1
			if n >= len(all) {
				return nil
			}
			id, err := s.session(n)
			if err != nil {
				return err
			}
			result, err := kit.Issue(context.Background(), store, s.ring, id, time.Now())
			if err != nil {
				return err
			}
			all[n] = request("POST", api.ValidatePath, s.key, `{"result_token":"`+result+`"}`)
		}
	}
	errs := make([]error, edgeConnections)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = complete() })
	}
	wg.Wait()
	return once(all), errors.Join(errs...)
}

// around returns one request after the other, and then begins again.
func around(all [][]byte) func() []byte {
	var at atomic.Int64
	return func() []byte { return all[int(at.Add(1)-1)%len(all)] }
}

// busyOf is how long the processors have worked for a process, to hundredths
// of a second.
func busyOf(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte(") ")) // the program's name may hold anything
	fields := strings.Fields(string(rest))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
