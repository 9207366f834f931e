package scale

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report returns the tables in Markdown.
func report(results []result, claim []claimed, counters []counter, sessions int) string {
	b := new(strings.Builder)
	var versions []string
	for _, r := range results {
		if r.version != "" && !slices.Contains(versions, r.version) {
			versions = append(versions, r.version)
		}
	}
	fmt.Fprintf(b, "Measured on %s by `make scale SESSIONS=%d USERS=%d`, on %s with %d cores, %s, %s",
		time.Now().UTC().Format(time.DateOnly), sessions, *usersFlag, processor(), runtime.NumCPU(),
		strings.Join(append([]string{kernel()}, versions...), ", "), runtime.Version())
	fmt.Fprint(b, ".\n")
	costs(b, results)
	sizes(b, results)
	requests(b, results)
	memory(b, results)
	claimTable(b, claim)
	counterTable(b, counters)
	plan(b, results)
	return b.String()
}

// table writes the head of a table.
func table(b *strings.Builder, title string, columns ...string) {
	fmt.Fprintf(b, "\n**%s**\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "),
		strings.Repeat("---|", len(columns)))
}

func row(b *strings.Builder, cells ...any) {
	for _, cell := range cells {
		fmt.Fprintf(b, "| %v ", cell)
	}
	b.WriteString("|\n")
}

// ms returns a duration in milliseconds, or a dash for none.
func ms(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return strconv.FormatFloat(float64(d)/1e6, 'f', 2, 64) + " ms"
}

// perCore returns the number of pieces of work that a core does in a second.
func perCore(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return whole(float64(time.Second) / float64(d))
}

// whole returns a number without fraction, with a comma before every three digits.
func whole(f float64) string {
	text := strconv.FormatFloat(f, 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func costs(b *strings.Builder, results []result) {
	table(b, "Cost of a session and of an event", "store", "instances", "session: service", "session: store",
		"event: service", "event: store", "sessions/s per service core", "events/s per service core",
		"sessions/s per store core", "sessions/s here (cores of service and store)")
	for _, r := range results {
		service, server := r.whole()
		row(b, r.store, r.instances, ms(r.session.service), ms(r.session.server),
			ms(r.event.service), ms(r.event.server),
			perCore(time.Duration(service*1e9)), perCore(r.event.service),
			perCore(time.Duration(server*1e9)), fmt.Sprintf("%s (%.1f, %.1f)", whole(1/r.wall.Seconds()),
				service/r.wall.Seconds(), server/r.wall.Seconds()))
	}
}

func sizes(b *strings.Builder, results []result) {
	table(b, "Data of a session", "store", "pending: bytes", "pending: rows", "finished: bytes",
		"finished: rows", "calls of the store")
	seen := map[string]bool{}
	for _, r := range results {
		if seen[r.store] {
			continue
		}
		seen[r.store] = true
		bytes := func(e extent) string {
			if e.rows == 0 {
				return "–"
			}
			return whole(e.bytes)
		}
		rows := func(e extent) string {
			if e.rows == 0 {
				return "–"
			}
			return strconv.FormatFloat(e.rows, 'f', 1, 64)
		}
		var calls []string
		for _, operation := range []string{"get", "list", "commit", "claim", "spend"} {
			if n := r.calls[operation]; n >= .05 {
				calls = append(calls, strconv.FormatFloat(n, 'f', 1, 64)+" "+operation)
			}
		}
		row(b, r.store, bytes(r.pending), rows(r.pending), bytes(r.finished), rows(r.finished),
			strings.Join(calls, ", "))
	}
	for _, r := range results {
		if r.finished.kept == [len(classes)]extentOf{} {
			continue
		}
		table(b, "Items of a finished session, by the time that they are kept", "kept", "rows", "bytes")
		for i, kept := range r.finished.kept {
			row(b, classes[i].name, strconv.FormatFloat(kept.rows, 'f', 1, 64), whole(kept.bytes))
		}
		break
	}
}

// requests writes how often each request waits for the store.
func requests(b *strings.Builder, results []result) {
	columns := append([]string{"store", ""}, steps...)
	first := true
	for _, r := range results {
		if r.byStep == nil {
			continue
		}
		if first {
			table(b, "Calls of the store and round trips in each request, with filled caches", columns...)
			first = false
		}
		calls, trips := []any{r.store, "calls"}, []any{r.store, "round trips"}
		for i := range steps {
			calls, trips = append(calls, r.byStep[i]), append(trips, r.trips[i])
		}
		row(b, calls...)
		row(b, trips...)
	}
}

func counterTable(b *strings.Builder, counters []counter) {
	if len(counters) == 0 {
		return
	}
	table(b, "One rate counter that all requests spend", "store", "adapter",
		"server", "per second here")
	for _, c := range counters {
		row(b, c.store, ms(c.cost.service), ms(c.cost.server), whole(c.perSecond))
	}
}

func memory(b *strings.Builder, results []result) {
	table(b, "Memory and connections of an instance", "store", "instances", "processor at rest", "at rest",
		"at most, under load", "per 1,000 pending sessions", "connections to the store")
	mib := func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) + " MiB" }
	for _, r := range results {
		connections, pending := "–", "–"
		if r.connections > 0 {
			connections = whole(r.connections)
		}
		if r.store == "memory" || r.connections > 0 {
			pending = mib(max(0, r.perThousand))
		}
		row(b, r.store, r.instances, strconv.FormatFloat(r.idle*100, 'f', 1, 64)+" %",
			mib(r.rest), mib(r.peak), pending, connections)
	}
}

// manyTimers is a number of timers for which the cost of a claim is calculated, if it was not measured.
const manyTimers = 10_000_000

func claimTable(b *strings.Builder, claim []claimed) {
	if len(claim) == 0 {
		return
	}
	columns := []string{"store"}
	var stores []string
	for _, c := range claim {
		if !slices.Contains(stores, c.store) {
			stores = append(stores, c.store)
		}
		if name := whole(float64(c.timers)) + " timers"; !slices.Contains(columns, name) {
			columns = append(columns, name)
		}
	}
	largest := claim[len(claim)-1].timers
	if largest < manyTimers {
		columns = append(columns, whole(manyTimers)+" timers (calculated)")
	}
	table(b, "Processor time of a claim of 10 due tasks, service and store", columns...)
	for _, name := range stores {
		cells := []any{name}
		var of []claimed
		for _, c := range claim {
			if c.store == name {
				of = append(of, c)
				cells = append(cells, ms(c.cost.service+c.cost.server))
			}
		}
		if largest < manyTimers && len(of) > 1 {
			cells = append(cells, ms(extrapolate(of[0], of[len(of)-1], manyTimers)))
		}
		row(b, cells...)
	}
}

// loads are the loads of the plan in sessions per second.
var loads = []float64{1, 10, 100, 1000}

func plan(b *strings.Builder, results []result) {
	parts := shares(results)
	// The costs of two instances include those of sharing.
	chosen := map[string]result{}
	var names []string
	for _, r := range results {
		if _, found := chosen[r.store]; !found {
			names = append(names, r.store)
		}
		if r.instances <= 2 {
			chosen[r.store] = r
		}
	}
	table(b, "Need at a load", "store", "sessions/s", "service cores", "store cores", "instances",
		"connections", "data of the store", "timers", "exceeded")
	for _, name := range names {
		r := chosen[name]
		for _, load := range loads {
			n := r.needs(load, parts)
			data := "–"
			if n.bytes > 0 {
				data = strconv.FormatFloat(n.bytes/(1<<30), 'f', 1, 64) + " GiB"
			}
			var exceeded []string
			for _, bound := range r.bounds(parts) {
				if bound.rate < load {
					exceeded = append(exceeded, bound.resource)
				}
			}
			row(b, name, whole(load), strconv.FormatFloat(n.service, 'f', 3, 64),
				strconv.FormatFloat(n.server, 'f', 3, 64), n.instances, n.connections, data,
				whole(float64(n.timers)), strings.Join(exceeded, "; "))
		}
	}
	table(b, "Bounds of one publisher, or of one address of users, by the default limits", "sessions/s",
		"limit", "remedy")
	for _, bound := range limitBounds() {
		row(b, strconv.FormatFloat(bound.rate, 'f', 1, 64), bound.resource, bound.remedy)
	}
	table(b, "Bounds of each store, the first one first", "store", "sessions/s", "resource", "remedy")
	for _, name := range names {
		for _, bound := range chosen[name].bounds(parts) {
			row(b, name, whole(bound.rate), bound.resource, bound.remedy)
		}
	}
}

// processor returns the name of the machine's processor.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// kernel returns the name and the version of the system.
func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(text))
}
