package corpus

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/edge/transcript"
	"github.com/verge-id/verge/wasm/abi"
)

const suffix = ".jsonl.gz"

var update = flag.Bool("update", false, "write the recordings that differ to testdata")

// stored returns the text of a recording in testdata, or "" if -update has to create it.
func stored(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+suffix))
	if *update && errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func read(t *testing.T, name string) *transcript.Transcript {
	t.Helper()
	r, err := transcript.Read(strings.NewReader(stored(t, name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// write packs a recording into testdata.
func write(t *testing.T, name, text string) {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", name+suffix), packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The present core makes the recordings in testdata. If a response or an effect differs, the test shows the
// first line. With -update it writes the recordings that differ; it leaves a file with the same content
// alone, because another version of Go may pack it differently.
func TestRecordedAnew(t *testing.T) {
	for _, p := range recordings {
		t.Run(p.name, func(t *testing.T) {
			var text strings.Builder
			if err := p.record().Write(&text); err != nil {
				t.Fatal(err)
			}
			before, now := stored(t, p.name), text.String()
			if before == now {
				return
			}
			if *update {
				write(t, p.name, now)
				return
			}
			want, got := strings.Split(before, "\n"), strings.Split(now, "\n")
			for n := range min(len(want), len(got)) {
				if want[n] != got[n] {
					t.Fatalf("line %d was recorded as\n%s\nand is now\n%s\n"+
						"If that is right, run go generate here and commit the files.", n+1, want[n], got[n])
				}
			}
			t.Fatalf("%d lines were recorded, and now there are %d", len(want), len(got))
		})
	}
	files, err := filepath.Glob("testdata/*")
	if err != nil || len(files) != len(recordings) {
		t.Errorf("%d recordings, and files %v: %v", len(recordings), files, err)
	}
}

// The stored transcripts can be replayed. TestEnginesAreTheSame also replays them in a guest.
func TestReplay(t *testing.T) {
	for _, p := range recordings {
		t.Run(p.name, func(t *testing.T) {
			recorded := read(t, p.name)
			sum, differs, err := recorded.Replay(t.Context(), transcript.Engine{})
			if err != nil || differs != nil {
				t.Fatalf("%v, it differs at %v", err, differs)
			}
			if sum.Steps != len(recorded.Steps) {
				t.Errorf("%d of %d steps were replayed", sum.Steps, len(recorded.Steps))
			}
		})
	}
}

// The corpus has every code, page, event and effect that engines have to agree on.
func TestVariety(t *testing.T) {
	requests := 0
	seen := map[string]bool{}
	for _, p := range recordings {
		for _, s := range read(t, p.name).Steps {
			seen["entry "+s.EntryName()] = true
			for _, e := range s.Events {
				seen["event "+e.KindName()+" "+e.StatusName()] = true
				switch e.Kind {
				case abi.Count:
					seen["count "+string(e.Body)] = true
				case abi.Fetch:
					seen["webhook "+between(string(e.Body), `"type":"`)] = true
				}
			}
			if s.Entry != abi.Handle && s.Entry != abi.Admin {
				continue
			}
			requests++
			q, err := abi.Read.Request(s.Body)
			if err != nil {
				t.Fatal(err)
			}
			r, err := abi.Read.Response(s.Answer)
			if err != nil {
				t.Fatal(err)
			}
			if q.Path == web.HostedPath && strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
				seen["page "+between(string(r.Body), `data-page="`)] = true
				seen["language "+between(string(r.Body), `lang="`)] = true
			} else if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
				seen["code "+between(string(r.Body), `{"code":"`)] = true
				seen["failure "+between(string(r.Body), `"failure_code":"`)] = true
			}
		}
	}
	if requests < 2000 {
		t.Errorf("%d requests, want 2000", requests)
	}
	t.Logf("%d requests", requests)
	want := []string{
		"entry handle", "entry admin", "entry ready", "entry claim", "entry run", "entry defer",
		"entry run due",
		"entry apply", "entry handle again",
		"event get done", "event get not found", "event get unavailable",
		"event commit done", "event commit conflict", "event commit unavailable", "event commit unknown",
		"event claim done", "event claim unavailable", "event list done", "event list unavailable",
		"event spend done", "event spend unavailable", "event fetch done", "event fetch no answer",
		"event log done", "event count done", "event wake done",
	}
	for _, code := range []web.Code{web.InvalidRequest, web.InvalidToken, web.Unauthorized,
		web.Forbidden, web.NotFound, web.MethodNotAllowed, web.AlreadyUsed, web.IntegrationNotReady,
		web.TokenExpired, web.PayloadTooLarge, web.UnsupportedMediaType, web.RateLimited,
		web.Internal,
		web.ProviderUnavailable, web.Unavailable} {
		want = append(want, "code "+string(code))
	}
	for _, page := range []string{
		"method", "failed", "expired", "cancelled", "completed", "used", "damaged", "unavailable", "progress",
		"not_allowed",
	} {
		want = append(want, "page "+page)
	}
	for _, language := range []string{"en", "de", "es", "fr", "pt", "it"} {
		want = append(want, "language "+language)
	}
	for _, code := range []string{"MAX_ATTEMPTS", "PROVIDER_REJECTED", "USER_CANCELLED", "UNKNOWN",
		"TIMEOUT"} {
		want = append(want, "failure "+code)
	}
	for _, kind := range []string{
		webhook.TypeStarted, webhook.TypeCompleted, webhook.TypeFailed, webhook.TypeExpired,
	} {
		want = append(want, "webhook "+kind)
	}
	for _, event := range []string{
		"late_answer_ignored", "lease_lost", "session_completed", "session_expired", "session_failed",
		"task_dropped", "webhook_attempt_failed", "webhook_dead", "webhook_delivered",
	} {
		want = append(want, "count "+event)
	}
	want = slices.DeleteFunc(want, func(w string) bool { return seen[w] })
	if len(want) > 0 {
		t.Errorf("the corpus lacks %q", want)
	}
}

// between is the text from a word to the next quotation mark.
func between(s, word string) string {
	_, s, _ = strings.Cut(s, word)
	s, _, _ = strings.Cut(s, `"`)
	return s
}
