package troubleshooting

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

const secret = "whsec_only_for_tests"

var probes = []string{webhook.ProbeGood, webhook.ProbeBadSignature, webhook.ProbeStaleTimestamp,
	webhook.ProbeDifferingTimestamp, webhook.ProbeAlteredBody}

func TestAdvice_Probes(t *testing.T) {
	if len(advice) != len(probes) {
		t.Errorf("there is advice for %d probes, want %d", len(advice), len(probes))
	}
	for _, probe := range probes {
		a, ok := For(probe)
		if !ok || a.Probe != probe || a.Title == "" || a.Text == "" {
			t.Errorf("%s: %+v", probe, a)
		}
		for _, l := range Languages() {
			code := a.Code(l)
			if code == "" || !strings.HasSuffix(code, "\n") || strings.TrimLeft(code[:1], " \t") == "" {
				t.Errorf("%s, %s: the code is %q", probe, l.Name, code)
			}
			for line := range strings.Lines(code) {
				if len(strings.TrimRight(line, "\n")) > 110 {
					t.Errorf("%s, %s: the line is too long: %s", probe, l.Name, line)
				}
			}
		}
	}
	if a, ok := For("another"); ok {
		t.Errorf("advice for a probe that does not exist: %+v", a)
	}
}

// The code against old events is for a receiver without such a check, so it documents its inputs.
func TestSnippets_TimestampCheck(t *testing.T) {
	a, _ := For(webhook.ProbeStaleTimestamp)
	for _, l := range Languages() {
		code := a.Code(l)
		if !strings.Contains(code, "now is") || !strings.Contains(code, "X-Service-Signature") {
			t.Errorf("%s: the code does not document the unit of the clock, or the header:\n%s",
				l.Name, code)
		}
	}
}

func TestReceiver_Sections(t *testing.T) {
	for _, l := range Languages() {
		whole := l.Receiver()
		for _, probe := range probes {
			a, _ := For(probe)
			for line := range strings.Lines(a.Code(l)) {
				if !strings.Contains(whole, strings.TrimSpace(line)) {
					t.Errorf("%s, %s: the receiver lacks %s", l.Name, probe, line)
				}
			}
			if strings.Contains(whole, "["+probe+"]") || strings.Contains(whole, "["+end+"]") {
				t.Errorf("%s: the receiver contains a mark", l.Name)
			}
		}
	}
}

// run contains the commands that run a receiver in each language. The program gets WEBHOOK_SECRET and PORT.
var run = map[string]struct {
	needs   string // a program that may not be installed
	file    string // name of the source file
	compile func(source, program string) []string
	args    func(source, program, port string) []string
}{
	"node":   {needs: "node", file: "receiver.js", args: interpreted("node")},
	"python": {needs: "python3", file: "receiver.py", args: interpreted("python3")},
	"php": {needs: "php", file: "receiver.php", args: func(source, _, port string) []string {
		return []string{"php", "-S", "127.0.0.1:" + port, source}
	}},
	"go": {needs: "go", file: "receiver.go",
		compile: func(source, program string) []string {
			return []string{"go", "build", "-o", program, source}
		},
		args: func(_, program, _ string) []string { return []string{program} }},
}

func interpreted(name string) func(source, program, port string) []string {
	return func(source, _, _ string) []string { return []string{name, source} }
}

// mistakes are errors in a receiver that the advice describes. The second text replaces the first in the
// receiver. If a language has no text for a probe, the whole section is removed.
var mistakes = map[string]map[string][2]string{
	"node": {
		webhook.ProbeGood: {`.update(t + '.')`, ``},
		webhook.ProbeAlteredBody: {`Buffer.concat(chunks);`,
			`Buffer.from(JSON.stringify(JSON.parse(Buffer.concat(chunks))));`},
	},
	"python": {
		webhook.ProbeGood: {`t.encode() + b"." + body`, `body`},
		webhook.ProbeAlteredBody: {`self.rfile.read(length)`,
			`json.dumps(json.loads(self.rfile.read(length)), separators=(",", ":")).encode()`},
	},
	"php": {
		webhook.ProbeGood: {`$t . '.' . $body`, `$body`},
		webhook.ProbeAlteredBody: {`file_get_contents('php://input')`,
			`json_encode(json_decode(file_get_contents('php://input')), JSON_UNESCAPED_SLASHES)`},
	},
	"go": {
		webhook.ProbeGood: {`h.Write([]byte(t + "."))`, ``},
		webhook.ProbeAlteredBody: {`// [end]` + "\n\n\tif err := check(",
			"body = bytes.TrimSpace(body)\n\tif err := check("},
	},
}

// Every complete receiver passes the test. With the error that an advice describes, it fails at that probe:
// so the code of the advice fixes it.
func TestReceiversPassTheProbes(t *testing.T) {
	for _, l := range Languages() {
		t.Run(l.ID, func(t *testing.T) {
			how, ok := run[l.ID]
			if !ok {
				t.Fatal("there is no command to run it")
			}
			if l.ID != "python" {
				long.Skip(t, "TestReceiversPassTheProbes")
			}
			testenv.Program(t, how.needs)
			text, err := receivers.ReadFile(l.file)
			if err != nil {
				t.Fatal(err)
			}
			if ready, reasons := try(t, l, l.Receiver()); !ready {
				t.Errorf("the whole receiver is not ready: %q", reasons)
			}
			for _, probe := range probes {
				wrong := broken(t, l, string(text), probe)
				_, reasons := try(t, l, wrong)
				var failed []string
				for _, r := range reasons {
					name, _, _ := strings.Cut(r, ": ")
					failed = append(failed, name)
				}
				want := []string{probe}
				// who checks no signature does not see the body change either
				if probe == webhook.ProbeBadSignature {
					want = append(want, webhook.ProbeAlteredBody)
				}
				if !slices.Equal(failed, want) {
					t.Errorf("with a mistake in %s, %q fail, want %q: %q", probe, failed, want, reasons)
				}
			}
		})
	}
}

// broken returns the receiver with the mistake that a probe finds.
func broken(t *testing.T, l Language, text, probe string) string {
	t.Helper()
	if m, ok := mistakes[l.ID][probe]; ok {
		if strings.Count(text, m[0]) != 1 {
			t.Fatalf("%s: %q is not in the receiver once", probe, m[0])
		}
		text = strings.Replace(text, m[0], m[1], 1)
		if l.ID == "go" && probe == webhook.ProbeAlteredBody {
			text = strings.Replace(text, "import (\n", "import (\n\t\"bytes\"\n", 1)
		}
		return text
	}
	begin := strings.Index(text, "["+probe+"]")
	length := strings.Index(text[begin:], "["+end+"]")
	rest := text[begin+length:]
	text = text[:strings.LastIndex(text[:begin], "\n")+1] + rest[strings.Index(rest, "\n"):]
	if l.ID == "go" { // it does not compile with unused values
		const last = "\treturn nil\n}\n"
		text = strings.Replace(text, last, "\t_, _, _ = seconds, time.Now, v1\n"+last, 1)
		if probe == webhook.ProbeBadSignature {
			text = strings.Replace(text, "\texpected := h.Sum(nil)\n", "", 1)
		}
	}
	return text
}

// limit is far above the time that a receiver needs on a slow machine.
const limit = 5 * time.Minute

// try runs a receiver and sends the requests of clients without a secret, then the probes.
func try(t *testing.T, l Language, source string) (ready bool, reasons []string) {
	t.Helper()
	how, dir, whole := run[l.ID], t.TempDir(), source == l.Receiver()
	if whole { // for stall
		source = strings.NewReplacer("timeout = 10 ", "timeout = 4 ", "10 * time.Second", "4 * time.Second").
			Replace(source)
	}
	file, program := filepath.Join(dir, how.file), filepath.Join(dir, "receiver")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if how.compile != nil {
		args := how.compile(file, program)
		build := exec.Command(args[0], args[1:]...)
		build.Dir = dir
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", l.Name, err, out)
		}
	}
	port := fmt.Sprint(stores.FreePort(t))
	args := how.args(file, program, port)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret, "PORT="+port)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		cmd.Process.Kill()
		wait.For(ended)
	}()
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s: it ended: %v\n%s", l.Name, err, &said)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not listen\n%s", l.Name, &said)
		}
	}
	attack(t, l, "127.0.0.1:"+port)
	if whole && (l.ID == "python" || l.ID == "go") { // the others have a limit
		stall(t, l, "127.0.0.1:"+port)
	}
	now := time.Now()
	event := webhook.ReadinessEvent(webhook.Head{ID: "evt_694069ac-4d4e-475f-906b-2f11c5eca7bd",
		CreatedAt:   now,
		PublisherID: "pub_a", IntegrationID: "694069ac-4d4e-475f-906b-2f11c5eca7bd", SessionID: "svc_sess_x"})
	var results []webhook.ProbeResult
	for _, p := range webhook.Probes(secret, event, now) {
		status, err := post("http://127.0.0.1:"+port+"/", p)
		if err != nil {
			t.Fatalf("%s: %s: %v\n%s", l.Name, p.Name, err, &said)
		}
		results = append(results, webhook.ProbeResult{Name: p.Name, Status: status})
	}
	ready, reasons = webhook.Judge(results)
	return ready, reasons
}

// stall sends half a body and waits, so the receiver has to close the connection.
func stall(t *testing.T, l Language, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("%s: %v", l.Name, err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(limit))
	conn.Write([]byte("POST / HTTP/1.1\r\nHost: receiver.example\r\nContent-Length: 100\r\n\r\nhalf"))
	if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the receiver waits for a client that has stopped", l.Name)
	}
}

// attack sends a body that is longer than any event, a negative length, and half a body.
func attack(t *testing.T, l Language, address string) {
	t.Helper()
	const head = "POST / HTTP/1.1\r\nHost: receiver.example\r\nConnection: close\r\nContent-Length: "
	send := func(request string) net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		conn.SetDeadline(time.Now().Add(limit))
		conn.Write([]byte(request)) // the receiver may close the connection before the end
		return conn
	}
	for _, c := range []struct {
		name, request string
		want          []int
	}{
		{"long body", head + "1048576\r\n\r\n" + strings.Repeat(" ", 64<<10+1), []int{413}},
		{"negative length", head + "-1\r\n\r\n", []int{400, 413}},
	} {
		if l.ID == "php" { // PHP has a limit for all requests: post_max_size
			continue
		}
		conn := send(c.request)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || !slices.Contains(c.want, resp.StatusCode) {
			t.Fatalf("%s, %s: %v, %v, want %v", l.Name, c.name, resp, err, c.want)
		}
		conn.Close()
	}
	send(head + "100\r\n\r\nhalf").Close()
}

func post(url string, p webhook.Probe) (status int, err error) {
	req, err := http.NewRequest("POST", url, bytes.NewReader(p.Body))
	if err != nil {
		return 0, err
	}
	req.Close = true
	for name, value := range p.Header {
		req.Header.Set(name, value)
	}
	client := http.Client{Timeout: limit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirected") }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestLanguagesAreTheCallersOwn(t *testing.T) {
	first := Languages()
	first[0].ID = "changed"
	if slices.Equal(first, Languages()) {
		t.Error("a change of the list changes it for all callers")
	}
}
