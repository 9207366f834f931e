package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// loop sends requests over many connections until the time is up, and returns
// answers per second. next returns the request to send. An answer of another
// status than 200 ends the round with an error.
func loop(addr string, length time.Duration, next func() []byte) (float64, error) {
	return loopOver(connections, addr, length, next)
}

// loopOver is loop with that number of connections.
func loopOver(connections int, addr string, length time.Duration, next func() []byte) (float64, error) {
	var done atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, connections)
	begin := time.Now()
	for range connections {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				errs <- err
				return
			}
			defer c.Close()
			r := bufio.NewReaderSize(c, 8<<10)
			for time.Since(begin) < length {
				request := next()
				if request == nil {
					errs <- errors.New("the round ran out of prepared requests")
					return
				}
				if _, err := c.Write(request); err != nil {
					errs <- err
					return
				}
				if err := readAnswer(r); err != nil {
					errs <- err
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(done.Load()) / took.Seconds(), nil
	}
}

// readAnswer reads one answer of HTTP/1.1 with a Content-Length. It is cheaper than
// net/http.
func readAnswer(r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	ok := bytes.HasPrefix(line, []byte("HTTP/1.1 200"))
	status := strings.TrimSpace(string(line[:min(len(line), 40)]))
	length := 0
	for {
		line, err = r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if value, is := bytes.CutPrefix(line, []byte("Content-Length: ")); is {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if !ok {
		body, _ := io.ReadAll(io.LimitReader(r, int64(length)))
		return fmt.Errorf("%s: %s", status, body)
	}
	_, err = r.Discard(length)
	return err
}

// request returns the bytes of one request.
func request(method, path, key string, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: verge.test\r\nAuthorization: Bearer %s\r\n", method, path, key)
	b.WriteString("User-Agent: bench\r\nAccept: */*\r\n")
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.WriteString(body)
	return b.Bytes()
}

// floor serves a handler that reads the body and writes n bytes.
func floor(n int) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	answer := bytes.Repeat([]byte("x"), n)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(answer)
	})}
	go s.Serve(l)
	return l.Addr().String(), func() { s.Close() }, nil
}
