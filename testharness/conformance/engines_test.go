package conformance_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/kvadapters/redis"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
)

// The tests of this package run on the store of VERGE_HARNESS_KV, by default miniredis. VERGE_HARNESS_URL is
// the server of redis, cluster or postgres. There, every harness uses its own prefix or schema, and does not
// remove its data. VERGE_HARNESS_ENGINE selects the engine: "" (native), wasm (a guest of this process), or
// workerd (a Worker with its own store). VERGE_HARNESS_TURN names the column of TestEngines whose share of
// the methods' cases runs. By default all run.
var (
	engineTurn = os.Getenv("VERGE_HARNESS_TURN")
	engineName = os.Getenv("VERGE_HARNESS_KV")
	engineURL  = os.Getenv("VERGE_HARNESS_URL")
	inGuest    = os.Getenv("VERGE_HARNESS_ENGINE") == "wasm"
	inWorker   = os.Getenv("VERGE_HARNESS_ENGINE") == "workerd"
)

// store is one environment of TestEngines.
type store struct {
	name, engine, kv, program string
	server                    func(t *testing.T) (url string, keys func() int64)
}

// engines are the environments of TestEngines: a store under the native core, or another engine. If server is
// not nil, it starts the real program and returns its URL, and a function that counts the keys there.
var engines = []store{
	{name: "memory", kv: "memory"},
	{name: "bolt", kv: "bolt"},
	{name: "miniredis", kv: "miniredis"},
	{name: "wasm", engine: "wasm", kv: "miniredis"},
	{name: "workerd", engine: "workerd", program: "workerd",
		server: func(t *testing.T) (string, func() int64) {
			testenv.Program(t, "workerd")
			return "", func() int64 { return 1 } // the child process starts its own server
		}},
	{"redis", "", "redis", "redis-server", func(t *testing.T) (string, func() int64) {
		s := stores.StartRedis(t, stores.Durable...)
		return s.URL(), func() int64 { return s.Do("dbsize").(int64) }
	}},
	{"cluster", "", "cluster", "redis-server", func(t *testing.T) (string, func() int64) {
		nodes := stores.StartCluster(t, 3)
		return nodes.URL(), func() int64 { // of the node with the fewest: all must be used
			return min(nodes[0].Do("dbsize").(int64), nodes[1].Do("dbsize").(int64),
				nodes[2].Do("dbsize").(int64))
		}
	}},
	{"postgres", "", "postgres", "postgres", func(t *testing.T) (string, func() int64) {
		s := stores.StartPostgres(t, "max_connections=400")
		return s.URL(""), func() int64 {
			return s.Do("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'test-%'").(int64)
		}
	}},
}

// onEngine returns Options.KV for the engine. It is nil if New uses that store by default.
func onEngine(t testing.TB) func(func() time.Time) kv.KV {
	if inWorker || engineName == "" || engineName == "miniredis" {
		return nil
	}
	return engine(t)
}

// engine returns a function that opens a store on the engine. The first call
// opens an empty one. A call after that one is closed opens the same store, but
// memory is empty again.
func engine(t testing.TB) func(now func() time.Time) kv.KV {
	t.Helper()
	if inWorker {
		return durableObjects(t)
	}
	prefix := "test-" + strings.ToLower(rand.Text())
	// Each timeout is far above the time that a slow machine needs.
	const patient = "&read_timeout=1m&write_timeout=1m&dial_timeout=1m&pool_timeout=1m"
	opened := func(s kv.KV, err error) kv.KV {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.(io.Closer).Close() })
		return s
	}
	onRedis := func(url string) func(func() time.Time) kv.KV {
		return func(now func() time.Time) kv.KV {
			t.Helper()
			s, err := redis.Open(t.Context(), url+patient, redis.Config{Prefix: prefix})
			return kvtest.Clocked(opened(s, err), now)
		}
	}
	switch engineName {
	case "memory":
		return inMemory
	case "bolt":
		path := filepath.Join(t.TempDir(), "verge.db")
		return func(now func() time.Time) kv.KV {
			t.Helper()
			s, err := bolt.Open(path, bolt.Config{Now: now})
			return opened(s, err)
		}
	case "", "miniredis":
		return onRedis("redis://" + miniredis.RunT(t).Addr() + "?")
	case "redis":
		return onRedis(engineURL + "?")
	case "cluster":
		return onRedis(engineURL) // its URL has options
	case "postgres":
		return func(now func() time.Time) kv.KV {
			t.Helper()
			s, err := postgres.Open(t.Context(), engineURL+"?schema="+prefix,
				postgres.Config{Now: now, Timeout: time.Minute})
			return opened(s, err)
		}
	}
	t.Fatalf("VERGE_HARNESS_KV is %q, which is no engine", engineName)
	return nil
}

// TestEngines checks that the store is on the right server, by the keys that are
// left there.
func TestEngineIsTheOneNamed(t *testing.T) {
	onServer := kvtest.Clocked(new(redis.Store), nil)
	want := map[string]kv.KV{"": new(redis.Store), "miniredis": new(redis.Store), "memory": new(memory.Store),
		"bolt": new(bolt.Store), "redis": onServer, "cluster": onServer,
		"postgres": new(postgres.Store)}[engineName]
	if inWorker {
		want = new(workerd.Site).KV()
	}
	h := newHarness(t, nil)
	if reflect.TypeOf(h.KV) != reflect.TypeOf(want) {
		t.Errorf("on %q the store is a %T, want a %T", engineName, h.KV, want)
	}
	if _, is := h.Engine.(*guest); is != inGuest {
		t.Errorf("the core runs as a guest: %v, want %v", is, inGuest)
	}
	if _, is := h.Engine.(worker); is != inWorker {
		t.Errorf("the core runs as a Worker: %v, want %v", is, inWorker)
	}
}

// inMemory is a store for tests that ask 100,000 times and are not about the store.
func inMemory(now func() time.Time) kv.KV { return memory.New(memory.Config{Now: now}) }

// suites are the rows of TestEngines' table: the tests that run on every engine.
var suites = []struct {
	name  string
	tests []string
}{
	{"walk", []string{"TestWalk"}},
	{"requests", []string{"TestBodies", "TestPathsAndMethods", "TestRequestAndCorrelationIDs", "TestCORS",
		"TestNotFound", "TestProduction"}},
	{"start", []string{"TestStartAnswer", "TestStartFields", "TestCallbackURL", "TestCallbackVectors",
		"TestURLLengths"}},
	{"idempotency", []string{"TestIdempotencyKey"}},
	{"validate", []string{"TestValidateAnswer", "TestSingleUse", "TestResultIdentity"}},
	{"reconcile", []string{"TestReconcileTable", "TestReconcileErrors", "TestOutcomeLife",
		"TestReconcile_StoredData"}},
	{"credentials", []string{"TestCredentials", "TestKeys", "TestRevocationElsewhere"}},
	{"limits", []string{"TestLimits", "TestLimitHeaders", "TestClientAddress"}},
	{"tokens", []string{"TestTokenKinds", "TestExactExpiry", "TestKeyRing", "TestSessionID"}},
	{"races", []string{"TestRaces", "TestLateAnswers"}},
	{"hosted pages", []string{"TestGETShows", "TestPageHeaders", "TestPeopleGetPages", "TestOutcomes",
		"TestClicks", "TestForeignPosts", "TestPageLanguage", "TestEndedLinks", "TestCallbackRedirect"}},
	{"method: sandbox", []string{"TestMethodSandbox"}},
	{"method: oidc", []string{"TestMethodOIDC", "TestEncryptedIDTokens"}},
	{"method: estimator", []string{"TestMethodEstimator"}},
	{"method: openid4vp", []string{"TestMethodOpenID4VP", "TestMethodOpenID4VPSigned", "TestSwissWallet",
		"TestWalletMatrix", "TestWalletRevocation", "TestBrowserProtocols", "TestDocumentFaults",
		"TestFetchedRequests"}},
	{"method: courier", []string{"TestMethod_Courier"}},
	{"OpenID provider", []string{"TestOpenIDProvider", "TestOpenIDProvider_LongState",
		"TestOpenIDProvider_Denied"}},
	{"passkeys", []string{"TestPasskeys", "TestPasskeysOfOperators"}},
	{"webhooks", []string{"TestEventGolden", "TestEventsAreDescribed", "TestSignatureHeaders", "TestSchedule",
		"TestDeadEvents", "TestReadiness", "TestWebhooksOff"}},
	{"test events", []string{"TestTestEvents", "TestTestEventsReject", "TestTestEvents_ETag",
		"TestTestEvents_Wait", "TestTestEvents_WaitLimit", "TestTestEvents_Repeated"}},
	{"faults", []string{"TestStoreFaults", "TestHangingStore", "TestFaultsUnderDelivery"}},
	{"secrets", []string{"TestNoSecretIsTold"}},
	{"logs", []string{"TestLog_FollowsSession"}},
	{"usage", []string{"TestUsage"}},
	{"console", []string{"TestConsole"}},
	{"operators", []string{"TestOperators"}},
	{"partitions", []string{"TestPartitions"}},
	{"restart", []string{"TestRestart"}},
	{"harness", []string{"TestEngineIsTheOneNamed", "TestOwnReceiver", "TestAdvance"}},
}

// once are the tests that do not have to run on every engine, and why.
var once = map[string]string{
	"TestSpecCoverage":            "no store",
	"TestDeployTable_NamesTests":  "no store",
	"TestEngines":                 "runs the engines",
	"TestSuites_Complete":         "no store",
	"TestTally":                   "no store",
	"TestComplaints_LongLog":      "no store",
	"TestEngines_Short":           "no store",
	"TestMatrix_Report":           "no store",
	"TestWalkInAGuest":            "is about one engine",
	"TestZeroKnowledge":           "is not about the store, and some engines verify no proofs",
	"TestToken_ChangedBits":       "in memory: asks too often, and is not about the store",
	"TestMutatedTokens":           "in memory: asks too often, and is not about the store",
	"TestSingleUseIsLinearizable": "in memory: 20,000 histories",
}

// everywhere are the tests that the short run has on every engine. The suites of the methods have their first
// case there (takesCase).
var everywhere = []string{"TestEngineIsTheOneNamed", "TestWalk", "TestSingleUse", "TestPartitions",
	"TestRestart", "TestMethodSandbox", "TestMethodOIDC", "TestMethodEstimator", "TestMethodOpenID4VP"}

// cores are the engines that share the cells of TestWalletMatrix in the short run (takesCell). That test is
// not about stores.
var cores = []string{"wasm", "workerd"}

// turnsOf returns the engines that a test has in the short run, in addition to the engine of the run itself.
func turnsOf(test string) []string {
	switch {
	case slices.Contains(everywhere, test):
		return others()
	case test == "TestWalletMatrix":
		return cores
	}
	return nil
}

// others are the columns of TestEngines that the short run starts: the run itself is on miniredis.
func others() (names []string) {
	for _, e := range engines {
		if e.name != "miniredis" {
			names = append(names, e.name)
		}
	}
	return names
}

// testsFor returns the tests of all suites that run on the engine of that name.
func testsFor(engine string, full bool) (tests []string) {
	for _, s := range suites {
		for _, test := range s.tests {
			if full || slices.Contains(turnsOf(test), engine) {
				tests = append(tests, test)
			}
		}
	}
	return tests
}

// TestMain runs at least four parallel tests. The children of TestEngines and tests that wait for deadlines
// use a third of a processor each.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); runtime.GOMAXPROCS(0) < 4 && f.Value.String() == f.DefValue {
		f.Value.Set("4")
	}
	os.Exit(m.Run())
}

// The same tests on every engine, as a table of engine and suite.
func TestEngines(t *testing.T) {
	if engineName != "" || inGuest || inWorker {
		t.Skip("SKIP: this run is of one engine")
	}
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	columns := make([]column, len(engines))
	t.Cleanup(func() {
		// With -run, some engines may not have been asked.
		asked := slices.DeleteFunc(columns, func(c column) bool { return c.cells == nil && c.none == "" })
		t.Log("REPORT\n" + table(asked) + matrix(asked)) // make test shows it
	})
	// For an engine and its children. There is more room than most machines have processors, because a child
	// waits for deadlines during a third of its time.
	room := make(chan struct{}, 3)
	for i, e := range engines {
		c := &columns[i]
		c.name = e.name
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			var err error
			full := long.Run(t, "TestEngines")
			if !full && e.engine == "" && e.kv == "miniredis" {
				c.none, c.matrix = "HERE: the other tests of this run are on it", rowsHere()
				return
			}
			// The column of workerd takes as long as three others, and is mostly idle: it needs no room.
			if e.engine != "workerd" {
				room <- struct{}{}
				defer func() { wait.For(room) }()
			}
			defer func() {
				if t.Skipped() {
					c.none = "SKIP: " + e.program + " is not installed"
				} else if c.cells == nil {
					c.none = "FAIL: see TestEngines/" + e.name
				}
			}()
			url, keys := "", func() int64 { return 1 }
			if e.server != nil {
				url, keys = e.server(t)
			}
			tests, turn := testsFor(e.name, full), ""
			if !full {
				turn = e.name
			}
			var out string
			out, c.took, err = e.run(t.Context(), program, url, turn, tests)
			if keys() == 0 {
				t.Fatal("the child has left nothing on the server: it ran on something else")
			}
			r := resultsOf(out)
			c.cells, c.matrix = r.tally(tests), matrixRows(
				func(_ string, row, n int) bool { return takesCell(turn, row, n) },
				func(test string) bool { return r.verdicts[test] == "PASS" })
			failed := slices.ContainsFunc(c.cells, func(c cell) bool { return c.failed > 0 })
			if err != nil || failed {
				t.Errorf("%v\n%sAgain: VERGE_HARNESS_ENGINE=%s VERGE_HARNESS_KV=%s go test "+
					"./testharness/conformance, with VERGE_HARNESS_URL where a server is needed",
					err, complaints(out), e.engine, e.kv)
			}
		})
	}
}

// run runs tests on the engine, in a child process: in full if turn is "". The tests of workerd wait for most
// of their time, so it has two children with half of them each.
func (e store) run(ctx context.Context, program, url, turn string, tests []string) (out string,
	took time.Duration, err error) {
	shares := [][]string{tests}
	if half := len(tests) / 2; e.engine == "workerd" {
		shares = [][]string{tests[:half], tests[half:]}
	}
	outs, errs := make([]bytes.Buffer, len(shares)), make([]error, len(shares))
	children := make([]*exec.Cmd, len(shares))
	var all sync.WaitGroup
	for n, share := range shares {
		// The parallel tests of a child wait most of the time.
		args := []string{"-test.v", "-test.parallel=4", "-test.timeout=40m",
			"-test.run=^(" + strings.Join(share, "|") + ")$"}
		if turn != "" {
			args = append(args, "-test.short")
		}
		c := exec.CommandContext(ctx, program, args...)
		// A child has few living objects, and by default collects garbage most of the time.
		c.Env = append(os.Environ(), "VERGE_HARNESS_ENGINE="+e.engine, "VERGE_HARNESS_KV="+e.kv,
			"VERGE_HARNESS_URL="+url, "VERGE_HARNESS_TURN="+turn, "GOGC=400")
		c.Stdout, c.Stderr = &outs[n], &outs[n]
		children[n] = c
		all.Go(func() { errs[n] = c.Run() })
	}
	all.Wait()
	for n, c := range children {
		out += outs[n].String()
		if c.ProcessState != nil {
			took += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
	}
	return out, took, errors.Join(errs...)
}

// cell is the result of one suite on one engine.
type cell struct {
	cases, failed, skipped int
	reason                 string // of the last one skipped
}

func (c cell) String() string {
	switch {
	case c.cases == 0:
		return "not here" // another engine has its turn
	case c.failed > 0:
		return fmt.Sprintf("FAIL %d of %d", c.failed, c.cases)
	case c.skipped == c.cases:
		return "SKIP"
	case c.skipped > 0:
		return fmt.Sprintf("%d ok, %d SKIP", c.cases-c.skipped, c.skipped)
	}
	return fmt.Sprintf("%d ok", c.cases)
}

// column is the results of one engine.
type column struct {
	name   string
	cells  []cell // in the order of suites
	none   string // instead of cells: SKIP or FAIL, and why
	matrix []matrixRow
	took   time.Duration
}

// The lines of -test.v that count: whose output follows, why a test was skipped,
// and the result of a test.
var (
	current  = regexp.MustCompile(`^=== (?:RUN|NAME|CONT) +(\S+)$`)
	skipping = regexp.MustCompile(`^ +\S+\.go:\d+: SKIP: (.+)$`)
	reported = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \([0-9.]+s\)$`)
)

// results are the lines of -test.v that count, by the names of tests.
type results struct {
	verdicts, reasons map[string]string
	inner             map[string]bool // has subtests
	explained         map[string]bool // has one that failed
}

// resultsOf reads the output of a child.
func resultsOf(output string) results {
	r := results{map[string]string{}, map[string]string{}, map[string]bool{}, map[string]bool{}}
	name := ""
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		if m := current.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if m := skipping.FindStringSubmatch(line); m != nil {
			r.reasons[name] = m[1]
		} else if m := reported.FindStringSubmatch(line); m != nil {
			r.verdicts[m[2]] = m[1]
			for i, b := range m[2] {
				if b == '/' {
					r.inner[m[2][:i]] = true
					r.explained[m[2][:i]] = r.explained[m[2][:i]] || m[1] == "FAIL"
				}
			}
		}
	}
	return r
}

// tally counts the cases of each suite: subtests without subtests, and tests that failed although none of
// their subtests did. A test of the list that did not end has failed.
func (r results) tally(tests []string) []cell {
	cells := make([]cell, len(suites))
	suiteOf := map[string]*cell{}
	for i, s := range suites {
		for _, test := range s.tests {
			suiteOf[test] = &cells[i]
			if r.verdicts[test] == "" && slices.Contains(tests, test) {
				cells[i].cases++
				cells[i].failed++
			}
		}
	}
	for name, verdict := range r.verdicts {
		top, _, _ := strings.Cut(name, "/")
		c := suiteOf[top]
		switch {
		case c == nil:
		case verdict == "FAIL" && !r.explained[name]:
			c.cases++
			c.failed++
		case r.inner[name]:
		case verdict == "SKIP":
			c.cases++
			c.skipped++
			c.reason = r.reasons[name]
		case verdict == "PASS":
			c.cases++
		}
	}
	return cells
}

// table shows all columns side by side, and below them why something was skipped.
func table(columns []column) string {
	var out, notes strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	row := func(name string, text func(column) string) {
		fmt.Fprint(w, name)
		for _, c := range columns {
			fmt.Fprint(w, "\t", text(c))
		}
		fmt.Fprintln(w)
	}
	row("suite", func(c column) string { return c.name })
	for i, s := range suites {
		row(s.name, func(c column) string {
			if c.none != "" {
				return c.none[:len("SKIP")]
			}
			if c.cells[i].skipped > 0 {
				fmt.Fprintf(&notes, "%s on %s: SKIP: %s\n", s.name, c.name, c.cells[i].reason)
			}
			return c.cells[i].String()
		})
	}
	row("time of CPU", func(c column) string {
		if c.none != "" {
			fmt.Fprintf(&notes, "%s: %s\n", c.name, c.none)
			return ""
		}
		return fmt.Sprintf("%.1f s", c.took.Seconds())
	})
	w.Flush()
	return out.String() + notes.String()
}

// complaints returns the parts of a child's output that explain its failures: the first errors of the
// service's log, without those of single requests, and then the lines of the tests, because a runner shows
// the end.
func complaints(output string) string {
	const most = 15_000 // bytes of each
	var logged, tests strings.Builder
	of, said := "", ""
	for line := range strings.Lines(output) {
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(trimmed, "=== "):
			of = line
			continue
		case strings.HasPrefix(trimmed, "--- PASS") || trimmed == "PASS\n":
			continue
		case strings.HasPrefix(trimmed, `{"time":`):
			if strings.Contains(line, `"level":"ERROR"`) &&
				!strings.Contains(line, `"msg":"request failed"`) {
				addUpTo(&logged, line, most)
			}
			continue
		}
		m := current.FindStringSubmatch(strings.TrimSpace(of))
		if m != nil && m[1] != said && !strings.HasPrefix(trimmed, "--- ") {
			said = m[1]
			addUpTo(&tests, said+"\n", most)
		}
		addUpTo(&tests, line, most)
	}
	return logged.String() + tests.String()
}

// addUpTo adds a line while b has room for it, and a note instead of the first line without room.
func addUpTo(b *strings.Builder, line string, most int) {
	const note = "… and more\n"
	switch {
	case strings.HasSuffix(b.String(), note):
	case b.Len()+len(line) > most:
		b.WriteString(note)
	default:
		b.WriteString(line)
	}
}

func TestComplaints_LongLog(t *testing.T) {
	log := `        {"time":"2026-11-21T03:50:56Z","level":"ERROR","msg":"key ring"}` + "\n"
	got := complaints("=== RUN   TestWalk\n" + strings.Repeat(log, 1000) + "    walk_test.go:27: callback\n" +
		"--- FAIL: TestWalk (0.02s)\n")
	end := "… and more\nTestWalk\n    walk_test.go:27: callback\n--- FAIL: TestWalk (0.02s)\n"
	if !strings.HasSuffix(got, end) || len(got) > 16_000 {
		t.Errorf("%d bytes, which end with %q", len(got), got[max(0, len(got)-200):])
	}
}

func TestTally(t *testing.T) {
	output := `=== RUN   TestWalk
=== RUN   TestWalk/L1
    walk_test.go:27: callback
    harness.go:277: the service's log:
        {"time":"2026-11-21T03:50:56Z","level":"INFO"}
        {"time":"2026-11-21T03:50:56Z","level":"ERROR","msg":"request failed"}
        {"time":"2026-11-21T03:50:56Z","level":"ERROR","msg":"a guest failed"}
--- FAIL: TestWalk (0.02s)
    --- FAIL: TestWalk/L1 (0.01s)
    --- PASS: TestWalk/L2 (0.01s)
--- FAIL: TestPartitions (1.00s)
    --- PASS: TestPartitions/a (0.00s)
    --- PASS: TestPartitions/a/b (0.00s)
    --- PASS: TestPartitions/a/c (0.00s)
=== RUN   TestRestart
    vectors_test.go:125: SKIP: memory stores no data
--- SKIP: TestRestart (0.00s)
--- PASS: TestEngineIsTheOneNamed (0.00s)
=== RUN   TestOwnReceiver
--- PASS: TestOwnReceiver (0.00s)
--- PASS: TestAdvance (0.00s)
    --- SKIP: TestAdvance/x (0.00s)
--- PASS: TestReconcileTable (0.00s)
panic: the child ends here
`
	want := map[string]string{
		"walk":       "FAIL 1 of 2",
		"partitions": "FAIL 1 of 3",
		"restart":    "SKIP",
		"harness":    "2 ok, 1 SKIP",
		"reconcile":  "FAIL 3 of 4",
		"secrets":    "FAIL 1 of 1",
	}
	cells := resultsOf(output).tally(testsFor("memory", true))
	for i, c := range cells {
		if w, ok := want[suites[i].name]; ok && c.String() != w {
			t.Errorf("%s: %q, want %q", suites[i].name, c, w)
		}
	}
	text := table([]column{{name: "memory", cells: cells},
		{name: "redis", none: "SKIP: redis-server is not installed"}})
	for _, want := range []string{
		"\nwalk                FAIL 1 of 2    SKIP\n",
		"\nrestart on memory: SKIP: memory stores no data\n",
		"\nredis: SKIP: redis-server is not installed\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not hold %q:\n%s", want, text)
		}
	}
	got := complaints(output)
	for _, want := range []string{
		"TestWalk/L1\n    walk_test.go:27: callback\n", "a guest failed", "--- FAIL: TestPartitions",
		"panic: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the complaints do not hold %q:\n%s", want, got)
		}
	}
	for _, unwanted := range []string{"TestWalk/L2", `"level":"INFO"`, "request failed", "TestAdvance\n"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("the complaints hold %q:\n%s", unwanted, got)
		}
	}
}

// In the short run, a test of everywhere is on every engine. A case of a method takes turns: it is on the
// engine of the run itself and on another one.
func TestEngines_Short(t *testing.T) {
	for _, test := range everywhere {
		for _, e := range others() {
			if !slices.Contains(testsFor(e, false), test) {
				t.Errorf("the short run does not have %s on %s", test, e)
			}
		}
	}
	for _, test := range testsFor("", true) {
		n := 0
		for _, e := range others() {
			if slices.Contains(testsFor(e, false), test) {
				n++
			}
		}
		if want := len(turnsOf(test)); n != want {
			t.Errorf("the short run has %s on %d engines besides its own, want %d", test, n, want)
		}
	}
	defer func(was string) { engineTurn = was }(engineTurn)
	for n := range 2 * len(engines) {
		var has []string
		for _, engineTurn = range append(others(), "") {
			if takesCase(n) {
				has = append(has, engineTurn)
			}
		}
		want := 2
		if n == 0 {
			want = len(engines)
		}
		if len(has) != want || has[want-1] != "" {
			t.Errorf("case %d of a method is on %q, want %d engines and the run itself", n, has, want-1)
		}
	}
}

// Each new test must state whether it runs on every engine.
func TestSuites_Complete(t *testing.T) {
	places := map[string]int{}
	for _, s := range suites {
		for _, test := range s.tests {
			places[test]++
		}
	}
	for test := range once {
		places[test]++
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t `)
	seen := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllSubmatch(source, -1) {
			test := string(m[1])
			seen++
			if n := places[test]; n != 1 {
				t.Errorf("%s: %s is in %d places of suites and once in engines_test.go, want 1", file, test,
					n)
			}
			delete(places, test)
		}
	}
	for test := range places {
		t.Errorf("engines_test.go names %s, which is no test", test)
	}
	if seen < 50 {
		t.Errorf("only %d tests seen", seen)
	}
}
