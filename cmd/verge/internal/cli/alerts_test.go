package cli

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/testenv"
)

// watch is a Prometheus that scrapes instances of the real binary, and evaluates the rules of
// edge/deploy/alerts.yml, unchanged, by promtool.
//
// Rules evaluate minutes and hours, and a test has seconds. So watch stretches time: each scrape has a number
// of minutes, and its state begins that long before it, right after the previous scrape. A counter grows
// evenly in that time. A gauge has its value for the whole of it. A point in time, such as an expiry, has
// the distance from its beginning that it had from the scrape. A series that a scrape does not have is
// absent, as for Prometheus.
//
// Free disk is the machine's, and is watched only where the store has another limit.
type watch struct {
	t         *testing.T
	instances map[string]*served
	room      bool              // the room of the store is watched
	types     map[string]string // of metrics, as /metrics lists them
	moments   []moment
}

// moment is one scrape of all instances.
type moment struct {
	minute  int
	samples map[string]float64 // by series
}

func newWatch(t *testing.T, instances map[string]*served) *watch {
	testenv.Program(t, "promtool")
	return &watch{t: t, instances: instances, types: map[string]string{}}
}

const rulesFile = "../../../../edge/deploy/alerts.yml"

// watchedMetrics are the metrics of the rules. The others are not evaluated.
func watchedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	watched := map[string]bool{"up": true}
	for _, name := range regexp.MustCompile(`\b(verge|process)_\w+`).FindAllString(string(rules), -1) {
		watched[name] = true
	}
	return watched
}

var sampleLine = regexp.MustCompile(`^(\w+)(\{.*\})? (\S+)$`)

// scrape scrapes all instances. Their state lasts for that many minutes, up to this scrape.
func (w *watch) scrape(minutes int) {
	w.t.Helper()
	m, begin := moment{minute: minutes, samples: map[string]float64{}}, 0
	if n := len(w.moments); n > 0 {
		begin = w.moments[n-1].minute
		m.minute += begin
	}
	watched := watchedMetrics(w.t)
	for name, in := range w.instances {
		target := fmt.Sprintf(`instance=%q,job="verge"`, name)
		m.samples["up{"+target+"}"] = 0
		resp, err := http.Get("http://" + in.at.Ops + "/metrics")
		if err != nil {
			continue
		}
		m.samples["up{"+target+"}"] = 1
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if typed, ok := strings.CutPrefix(lines.Text(), "# TYPE "); ok {
				metric, kind, _ := strings.Cut(typed, " ")
				w.types[metric] = kind
			}
			found := sampleLine.FindStringSubmatch(lines.Text())
			if found == nil || !watched[found[1]] || found[1] == "verge_store_free_bytes" && !w.room {
				continue
			}
			value, err := strconv.ParseFloat(found[3], 64)
			if err != nil {
				w.t.Fatalf("%s: %v", lines.Text(), err)
			}
			if isTime(found[1]) {
				value += float64(60*begin) - float64(time.Now().Unix())
			}
			labels := strings.TrimSuffix(strings.TrimPrefix(found[2], "{"), "}")
			if labels != "" {
				labels += ","
			}
			m.samples[found[1]+"{"+labels+target+"}"] = value
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	w.moments = append(w.moments, m)
}

// isTime reports whether a metric is a point in time that rules compare with the present.
func isTime(metric string) bool {
	return strings.HasSuffix(metric, "_expiry_timestamp_seconds") ||
		strings.HasSuffix(metric, "_next_update_seconds") || strings.HasSuffix(metric, "_grace_end_seconds")
}

// isCounter reports whether a series grows between two scrapes.
func (w *watch) isCounter(series string) bool {
	metric, _, _ := strings.Cut(series, "{")
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base := strings.TrimSuffix(metric, suffix); w.types[base] == "histogram" {
			return true
		}
	}
	return w.types[metric] == "counter"
}

// values returns a series in the notation of promtool, with one value a minute.
func (w *watch) values(series string) string {
	var values []string
	for i, m := range w.moments {
		begin, before, had := 0, 0.0, false
		if i > 0 {
			begin = w.moments[i-1].minute + 1
			before, had = w.moments[i-1].samples[series], has(w.moments[i-1].samples, series)
		}
		now, has := m.samples[series], has(m.samples, series)
		for minute := begin; minute <= m.minute; minute++ {
			value, ok := now, has
			if w.isCounter(series) && minute < m.minute {
				share := float64(minute-begin+1) / float64(m.minute-begin+1)
				// Without a value before, it appears at the scrape. After a restart, it begins again there.
				value, ok = before+share*(now-before), had
				if now < before || !has {
					value = before
				}
				ok = ok && has
			}
			switch {
			case !ok:
				values = append(values, "_")
			case math.IsInf(value, 0) || math.IsNaN(value):
				values = append(values, "NaN")
			default:
				values = append(values, strconv.FormatFloat(value, 'f', -1, 64))
			}
		}
	}
	return strings.Join(values, " ")
}

func has(samples map[string]float64, series string) bool { _, ok := samples[series]; return ok }

// fires checks which alerts fire at the last scrape: exactly these.
func (w *watch) fires(rule string, alerts ...string) {
	w.t.Helper()
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range w.moments {
		for series := range m.samples {
			all[series] = true
		}
	}
	at := w.moments[len(w.moments)-1].minute
	var text strings.Builder
	fmt.Fprintf(
		&text,
		"rule_files: [%q]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n",
		rules,
	)
	for _, series := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "      - series: '%s'\n        values: '%s'\n", series, w.values(series))
	}
	fmt.Fprintf(
		&text,
		"    promql_expr_test:\n      - expr: 'group by (alertname) (ALERTS{alertstate=\"firing\"})'\n"+
			"        eval_time: %dm\n        exp_samples:%s\n",
		at,
		map[bool]string{true: " []"}[len(alerts) == 0],
	)
	for _, alert := range alerts {
		fmt.Fprintf(&text, "          - labels: '{alertname=%q}'\n            value: 1\n", alert)
	}
	path := filepath.Join(w.t.TempDir(), "provoked_test.yml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		w.t.Fatal(err)
	}
	out, err := exec.Command(testenv.Program(w.t, "promtool"), "test", "rules", path).CombinedOutput()
	if err != nil {
		w.t.Errorf("%s: want %q: %s\nsince the last scrape but one: %s", rule, alerts, out, w.changes())
	}
}

// changes lists the series that have changed between the last two scrapes.
func (w *watch) changes() string {
	if len(w.moments) < 2 {
		return ""
	}
	before, now := w.moments[len(w.moments)-2].samples, w.moments[len(w.moments)-1].samples
	var lines []string
	for _, series := range slices.Sorted(maps.Keys(now)) {
		if v, ok := before[series]; (!ok || v != now[series]) && !strings.Contains(series, "_bucket{") {
			lines = append(lines, fmt.Sprintf("%s %v -> %v", series, v, now[series]))
		}
	}
	return strings.Join(lines, "\n")
}

// calm scrapes before and after traffic, and checks that no alert fires.
func (w *watch) calm(traffic func()) {
	w.t.Helper()
	w.scrape(0)
	traffic()
	w.scrape(90)
	w.fires("before the cause")
}
