package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// proxies are the samples in edge/deploy/proxy. In each, a test replaces names, and all of them must be
// present: $PORT is the proxy's own, $CERT and $KEY are files, $DIR a directory.
var proxies = []struct {
	name, program, sample string
	texts                 map[string]string
	args                  func(config string) []string
}{
	{"nginx", "/usr/sbin/nginx", "nginx.conf", map[string]string{
		"listen 443 ssl":                  "listen 127.0.0.1:$PORT ssl",
		"listen [::]:443 ssl http2;":      "",
		"/etc/ssl/verify.example.com.crt": "$CERT",
		"/etc/ssl/verify.example.com.key": "$KEY",
		"/var/log/nginx/error.log":        "$DIR/error.log",
		"/var/log/nginx/access.log":       "$DIR/access.log",
		"pid /run/nginx.pid":              "pid $DIR/nginx.pid",
		"worker_processes auto":           "daemon off; worker_processes 1",
		"user www-data;":                  "", // the user of the test
		"http {\n":                        "http {\n" + temporaries,
		"limit_conn clients 128;":         "limit_conn clients 1000;",
	}, func(config string) []string { return []string{"-c", config} }},
	{"haproxy", "/usr/sbin/haproxy", "haproxy.cfg", map[string]string{
		"bind :443":                       "bind 127.0.0.1:$PORT",
		"bind :::443 v6only":              "#", // not every machine has IPv6
		"/etc/ssl/verify.example.com.pem": "$DIR/pair.pem",
	}, func(config string) []string { return []string{"-db", "-f", config} }},
	{"caddy", "caddy", "Caddyfile", map[string]string{
		"\tadmin off\n":                   "\tadmin off\n\tauto_https disable_redirects\n",
		"verify.example.com {":            "verify.example.com:$PORT {\n\tbind 127.0.0.1",
		"/etc/ssl/verify.example.com.crt": "$CERT",
		"/etc/ssl/verify.example.com.key": "$KEY",
	}, func(config string) []string { return []string{"run", "--adapter", "caddyfile", "--config", config} }},
}

// temporaries are the directories of nginx, which would be the system's.
const temporaries = "client_body_temp_path $DIR/body; proxy_temp_path $DIR/proxy; " +
	"fastcgi_temp_path $DIR/fastcgi; uwsgi_temp_path $DIR/uwsgi; scgi_temp_path $DIR/scgi;\n"

// front is a proxy that runs in front of instances.
type front struct {
	addr   string
	dir    string
	says   *lines // on standard output and error
	client *http.Client
}

// startProxy runs the sample of proxies[n] in front of three addresses, until life ends.
func startProxy(t, life *testing.T, n int, behind []string) *front {
	t.Helper()
	return startProxyWith(t, life, n, proxies[n].texts, behind)
}

func startProxyWith(t, life *testing.T, n int, texts map[string]string, behind []string) *front {
	t.Helper()
	c := proxies[n]
	program := testenv.Program(t, c.program, c.name)
	f := &front{addr: fmt.Sprintf("127.0.0.1:%d", stores.FreePort(t)), dir: life.TempDir(), says: new(lines)}
	certificate, key, pool := selfSigned(t, aCertificate())
	for name, text := range map[string]string{"crt": certificate, "key": key, "pair.pem": certificate + key} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := readText(t, "../../../../edge/deploy/proxy/"+c.sample)
	replace := func(old, text string) {
		t.Helper()
		if !strings.Contains(config, old) {
			t.Fatalf("%s has no %q", c.sample, old)
		}
		config = strings.ReplaceAll(config, old, text)
	}
	for old, text := range texts {
		replace(old, text)
	}
	replace("127.0.0.1:8080", behind[0])
	for i, addr := range behind[1:] {
		more := regexp.MustCompile(fmt.Sprintf(`# (.*)10\.0\.0\.%d:8080`, i+2))
		replace(more.FindString(config), more.FindStringSubmatch(config)[1]+addr)
	}
	_, port, _ := net.SplitHostPort(f.addr)
	config = strings.NewReplacer("$PORT", port, "$CERT", f.dir+"/crt", "$KEY", f.dir+"/key", "$DIR", f.dir).
		Replace(config)
	path := filepath.Join(f.dir, c.sample)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, c.args(path)...)
	cmd.Stdout, cmd.Stderr = f.says, f.says
	cmd.Env = append(os.Environ(), "HOME="+f.dir, "XDG_DATA_HOME="+f.dir, "XDG_CONFIG_HOME="+f.dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	life.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	f.client = clientOf(f.addr, pool)
	serves := func() bool {
		resp, err := f.client.Get("https://verify.example.com/readyz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == 200
	}
	if !within(5*time.Minute, serves) {
		t.Fatalf("%s does not serve: %s", c.name, f.logged(t))
	}
	return f
}

// Contract 30: nginx counts the connections of an IPv6 network together, as Verge does. HAProxy masks
// addresses by its own means (ipmask), and Caddy counts no connections.
func TestNginxCountsIPv6ByNetwork(t *testing.T) {
	t.Parallel()
	held, goOn := make(chan struct{}, 16), make(chan struct{})
	behind := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			held <- struct{}{}
			wait.For(goOn)
		}
	}))
	letGo := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(behind.Close)
	t.Cleanup(letGo)
	texts := maps.Clone(proxies[0].texts)
	texts["limit_conn clients 128;"] = "limit_conn clients 1; set_real_ip_from 127.0.0.1; " +
		"real_ip_header X-Test-Client;"
	addr := behind.Listener.Addr().String()
	f := startProxyWith(t, t, 0, texts, []string{addr, addr, addr})
	ask := func(path, from string) int {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://verify.example.com"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Test-Client", from)
		resp, err := f.client.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	var asking sync.WaitGroup
	for _, from := range []string{"2001:db8:0:10a::1", "203.0.113.1"} { // a byte of the first is a line feed
		asking.Go(func() {
			if status := ask("/held", from); status != 200 {
				t.Errorf("contract 30: the first request of %s: %d", from, status)
			}
		})
		select {
		case <-held:
		case <-time.After(patience):
			t.Fatalf("the first request of %s does not arrive: %s", from, f.logged(t))
		}
	}
	for _, c := range []struct {
		rule, from string
		status     int
	}{
		{"the same address", "2001:db8:0:10a::1", 503},
		{"another address of the same /64", "2001:db8:0:10a:ffff::9", 503},
		{"the /64 beside it", "2001:db8:0:10b::1", 200},
		{"another network", "2001:db8:1:10a::1", 200},
		{"the same IPv4 address", "203.0.113.1", 503},
		{"another IPv4 address", "203.0.113.2", 200},
	} {
		if status := ask("/", c.from); status != c.status {
			t.Errorf("contract 30: %s: %d, want %d", c.rule, status, c.status)
		}
	}
	letGo()
	asking.Wait()
}

// The response that sends a browser to a provider has the flow token in its address and, with the request, in
// cookies. Each sample passes on the longest one.
func TestProxies_LongResponse(t *testing.T) {
	t.Parallel()
	location := "https://verify.example.com/verify?flow=" + strings.Repeat("f", 8<<10)
	cookies := slices.Repeat([]string{"__Host-verge-h=" + strings.Repeat("c", 3800)}, 4)
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/verify" {
			w.Header()["Set-Cookie"] = cookies
			http.Redirect(w, r, location, http.StatusSeeOther)
		}
	}))
	t.Cleanup(behind.Close)
	addr := behind.Listener.Addr().String()
	for n, c := range proxies {
		t.Run(c.name, func(t *testing.T) {
			f := startProxy(t, t, n, []string{addr, addr, addr})
			resp, err := f.client.Post("https://verify.example.com/verify", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 303 || resp.Header.Get("Location") != location ||
				!slices.Equal(resp.Header["Set-Cookie"], cookies) {
				t.Errorf("contract 34: the client gets %d with %d cookies, want 303 with 4", resp.StatusCode,
					len(resp.Header["Set-Cookie"]))
			}
		})
	}
}

// clientOf reaches the proxy by the name of base_url.
func clientOf(addr string, pool *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64,
			TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// logged returns all output of the proxy.
func (f *front) logged(t *testing.T) string {
	t.Helper()
	all := f.says.String()
	files, err := filepath.Glob(filepath.Join(f.dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		all += readText(t, name)
	}
	return all
}

// behindProxies returns a site on Redis whose users come by a proxy.
func behindProxies(t *testing.T, webhooks string) *site {
	t.Helper()
	return behindProxiesOn(t, stores.StartRedis(t, stores.Durable...), webhooks)
}

func behindProxiesOn(t *testing.T, redis *stores.Redis, webhooks string) *site {
	t.Helper()
	s := newSite(t, redis.URL(), webhooks,
		unlimited+"\n[drain]\ndelay = \"2s\"\n")
	config := strings.Replace(readText(t, s.config), `base_url = "http://127.0.0.1"`,
		`base_url = "https://verify.example.com"`+"\ntrusted_proxies = [\"127.0.0.1\"]\n"+
			"proxy_header = \"X-Forwarded-For\"", 1)
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// handle matches the last part of the path of a hand-off or of a pending response. Its holder continues a
// verification.
const handle = "aHandleThatNobodyMayLog"

var privatePaths = []string{"/verify/phone/" + handle, "/verify/box/" + handle + ".s"}

// TestProxies walks a verification through each sample in front of three instances, and reads the logs
// of the proxies, even if no instance is left.
func TestProxies(t *testing.T) {
	long.Skip(t, "TestProxies")
	t.Parallel()
	life := t
	sink := newEvents(t)
	sink.trust(testSecret)
	s := behindProxies(t, sink.URL)
	instances := s.startAll(3)
	var behind []string
	for _, in := range instances {
		behind = append(behind, in.at.Public)
	}
	walked := make([]string, len(proxies)) // what no proxy may log, of each
	fronts := make([]*front, len(proxies))
	for n, c := range proxies {
		t.Run(c.name, func(t *testing.T) {
			f := startProxy(t, life, n, behind)
			p := newPublisher(readyFile{BaseURL: "https://verify.example.com",
				seeds: seeds{SecretKey: s.key, IntegrationID: testIntegration}})
			p.http = f.client
			id, redirect, err := p.start(testIntegration)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(redirect)
			if err != nil {
				t.Fatal(err)
			}
			if walked[n] = u.RawQuery; walked[n] == "" {
				t.Fatalf("%s has no query", redirect)
			}
			req, _ := http.NewRequest("GET", redirect, nil)
			req.Header.Set("X-Forwarded-For", "203.0.113.77")
			if status, _, _, err := p.do(req); err != nil || status != 200 {
				t.Errorf("the page: %d %v", status, err)
			}
			token, err := p.approve(redirect)
			if err != nil {
				t.Fatal(err)
			}
			if valid, status, body := p.validate(token); !valid {
				t.Errorf("validate: %d %s", status, body)
			}
			if status, _, body, err := p.api("GET", "/api/v1/verify/sessions/"+id, nil); err != nil ||
				status != 200 {
				t.Errorf("reconcile: %d %s %v", status, body, err)
			}
			for _, path := range privatePaths {
				if _, err := f.client.Get("https://verify.example.com" + path); err != nil {
					t.Error(err)
				}
			}
			fronts[n] = f
		})
	}
	for _, in := range instances {
		if strings.Contains(in.logs.String(), "203.0.113.77") {
			t.Error("contract 30: a client chose the address that counts for it")
		}
		in.kill()
		wait.For(in.ended)
	}
	for n, f := range fronts {
		if f == nil {
			continue // skipped, or failed already
		}
		t.Run(proxies[n].name+" alone", func(t *testing.T) {
			resp, err := f.client.Get("https://verify.example.com/verify?" + walked[n])
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode < 502 || resp.StatusCode > 504 {
				t.Errorf("without an instance it answers %d", resp.StatusCode)
			}
			for _, path := range privatePaths {
				if _, err := f.client.Get("https://verify.example.com" + path); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(100 * time.Millisecond) // the line may come after the answer
			// The check of an instance has a query without a secret.
			said := strings.ReplaceAll(f.logged(t), "/readyz?store=ignore", "/readyz")
			if !strings.Contains(said, "/verify") || !strings.Contains(said, "/api/v1/verify/validate") {
				t.Errorf("it does not log the paths:\n%s", said)
			}
			_, secret, _ := strings.Cut(walked[n], "=")
			for _, private := range []string{secret, "?", s.key, "result_token", handle} {
				if strings.Contains(said, private) {
					t.Errorf("contract 13: it logs %.40q:\n%s", private, said)
				}
			}
		})
	}
}

// outage is how long the store is away in TestProxies_StoreAway: longer than any proxy takes to leave out an
// instance that it takes for unwell.
const outage = 10 * time.Second

// Contract 5, 22: while the shared store is away, every response through a proxy is Verge's own. The proxies'
// checks do not depend on the store, so that an instance stays in.
func TestProxies_StoreAway(t *testing.T) {
	long.Skip(t, "TestProxies_StoreAway")
	t.Parallel()
	redis := stores.StartRedis(t, stores.Durable...)
	sink := newEvents(t)
	sink.trust(testSecret)
	s := behindProxiesOn(t, redis, sink.URL)
	var behind []string
	instances := s.startAll(3)
	for _, in := range instances {
		behind = append(behind, in.at.Public)
	}
	publishers := make([]*publisher, len(proxies))
	redirects := make([]string, len(proxies))
	for n := range proxies {
		f := startProxy(t, t, n, behind)
		p := newPublisher(readyFile{BaseURL: "https://verify.example.com",
			seeds: seeds{SecretKey: s.key, IntegrationID: testIntegration}})
		p.http = f.client
		var err error
		if _, redirects[n], err = p.start(testIntegration); err != nil {
			t.Fatal(err)
		}
		publishers[n] = p
	}
	redis.Kill()
	end := time.Now().Add(outage)
	var asking sync.WaitGroup
	for n, p := range publishers {
		asking.Go(func() {
			counts := map[string]int{}
			for time.Now().Before(end) {
				for _, page := range []bool{false, true} {
					counts[askWithoutStore(t, proxies[n].name, p, redirects[n], page)]++
				}
				time.Sleep(50 * time.Millisecond)
			}
			if counts["503 page"] < 5 || counts["503 json"] < 5 {
				t.Errorf("contract 5: %s: too few responses without the store: %v", proxies[n].name, counts)
			}
		})
	}
	asking.Wait()
	redis.Start()
	for n, p := range publishers {
		serves := func() bool { _, _, err := p.start(testIntegration); return err == nil }
		if !within(patience, serves) {
			t.Errorf("%s does not serve after the outage", proxies[n].name)
		}
	}
	for _, in := range instances { // a stop turns the instance away, without the store, too
		resp, err := http.Get("http://" + in.at.Public + "/readyz?store=ignore")
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("an instance that serves: %v", err)
		}
	}
}

// askWithoutStore sends one request and checks that the response is Verge's. It returns its status and form.
func askWithoutStore(t *testing.T, proxy string, p *publisher, redirect string, page bool) string {
	form := "json"
	req, err := http.NewRequest("POST", p.BaseURL+"/api/v1/verify/start", strings.NewReader(
		`{"integration_id":"`+testIntegration+`","callback_url":"https://shop.example/callback"}`))
	if page {
		form = "page"
		req, err = http.NewRequest("GET", redirect, nil)
	}
	if err != nil {
		t.Error(err)
		return ""
	}
	req.Header.Set("Authorization", "Bearer "+p.SecretKey)
	req.Header.Set("Content-Type", "application/json")
	if page {
		req.Header.Set("Accept", "text/html")
	}
	status, header, body, err := p.do(req)
	wait := header.Get("Retry-After")
	isPage := strings.HasPrefix(header.Get("Content-Type"), "text/html")
	if err != nil || !strings.HasPrefix(header.Get("X-Request-Id"), "req_") || isPage != page ||
		status != 200 && (status != 503 || wait == "") {
		t.Errorf("contract 5, 22: %s, %s: %d, Retry-After %q, %v %v: %.200s", proxy, form, status, wait,
			header, err, body)
	}
	return fmt.Sprint(status, " ", form)
}
