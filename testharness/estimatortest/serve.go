package estimatortest

import (
	"net"
	"net/http"
	"time"
)

// testingTB is the part of *testing.T that Serve needs.
type testingTB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Serve runs an Estimator on a loopback address until the test ends, and returns where:
// http://127.0.0.1:port. Append PlainPath or YotiPath for the setting url.
func Serve(t testingTB, c Config) (e *Estimator, baseURL string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("estimatortest: %v", err)
	}
	e = New(c)
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it means that the server was closed
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return e, "http://" + listener.Addr().String()
}
