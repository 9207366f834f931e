//go:build wasip1

// Command probe is a guest that tells a test what its host does. /clock reads the clock
// around a computation and around an effect. Any other path fetches the URL in its
// body.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"
	"unsafe"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/wasm/abi"
)

func main() {}

var (
	inbox  []byte
	out    []byte
	header [3]uint32
	before = map[uint32]time.Time{} // of the requests of /clock
	lie    string
	draws  byte
)

//go:wasmexport verge_abi
func vergeABI() int32 { return abi.Version }

//go:wasmexport verge_reserve
func vergeReserve(n int32) uint32 {
	inbox = make([]byte, max(n, 1))
	return address(inbox)
}

func address(b []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

//go:wasmexport verge_config
func vergeConfig(n int32) uint32 {
	var c struct{ Host string }
	if err := json.Unmarshal(inbox[:n], &c); err != nil {
		panic(err)
	}
	lie = c.Host
	return 0
}

func outbox() uint32 {
	header = [3]uint32{address(out), uint32(len(out)), 0}
	return uint32(uintptr(unsafe.Pointer(&header)))
}

func put(rec abi.Record) { out = abi.Append.Record(nil, rec) }

func respond(request uint32, status int, body string) {
	respondWith(request, status, web.Header{}, body)
}

func respondWith(request uint32, status int, header web.Header, body string) {
	put(abi.Record{Request: request, Kind: abi.Respond,
		Body: abi.Append.Response(nil, &web.Response{Status: status, Header: header, Body: []byte(body)})})
}

// compute takes a while.
func compute() (sum uint32) {
	for n := range uint32(100_000_000) {
		sum ^= n * n
	}
	return sum
}

func selfTest(request uint32) {
	self := abi.Self{Random: make([]byte, 32), Now: time.Now(), Signed: abi.NotFound}
	rand.Read(self.Random)
	draws++
	switch lie {
	case "zeros":
		clear(self.Random)
	case "short":
		self.Random = self.Random[:16]
	case "constant":
		self.Random = bytes.Repeat([]byte{1}, 32)
	case "instance": // as every other one
		self.Random = bytes.Repeat([]byte{draws}, 32)
	case "clock":
		self.Now = self.Now.Add(time.Second)
	case "signed":
		self.Signed = abi.OK
	case "effect":
		key := abi.Append.Key(nil, kv.Key{Partition: "p0", Name: "n"})
		put(abi.Record{Request: request, Op: 1, Kind: abi.KVGet, Body: key})
		return
	}
	put(abi.Record{Request: request, Kind: abi.Respond, Body: abi.Append.Self(nil, self)})
}

func canary(request uint32) {
	switch lie {
	case "canary":
		respond(request, 500, "unwell")
	case "nothing":
		respond(request, 200, "")
	default:
		respond(request, 200, "well")
	}
}

//go:wasmexport verge_submit
func vergeSubmit(request uint32, n int32) uint32 {
	message := inbox[:n]
	if abi.Entry(message[0]) == abi.SelfTest {
		selfTest(request)
		return outbox()
	}
	req, err := abi.Read.Request(message[1:])
	if err != nil {
		panic(err)
	}
	switch req.Path {
	case "/clock":
		begin := time.Now()
		sum := compute()
		if end := time.Now(); !end.Equal(begin) || end.Sub(begin) != 0 {
			respond(request, 500, fmt.Sprintf("the clock advanced by %s while %d was computed",
				end.Sub(begin), sum))
			break
		}
		before[request] = begin
		key := abi.Append.Key(nil, kv.Key{Partition: "p0", Name: "n"})
		put(abi.Record{Request: request, Op: 1, Kind: abi.KVGet, Body: key})
	case "/echo":
		respond(request, 200, fmt.Sprintf("%s %q %q %v %v %q",
			req.Method, req.Path, req.Query, req.Header, req.Client, req.Body))
	case "/one-value":
		respondWith(request, 200, web.Header{"X-One": {"1"}, "Connection": {"close"}}, "")
	case "/two-values":
		respondWith(request, 200,
			web.Header{"X-One": {"1"}, "Connection": {"close"}, "Set-Cookie": {"a=1", "b=2"}}, "")
	case abi.CanaryPath:
		canary(request)
	case "/panic":
		panic(string(req.Body))
	case "/no-fetch":
		put(abi.Record{Request: request, Op: 1, Kind: abi.Fetch, Body: []byte{1}})
	case "/no-header":
		put(
			abi.Record{
				Request: request,
				Op:      1,
				Kind:    abi.Fetch,
				Body: abi.Append.Fetch(nil, host.FetchRequest{
					Method: "POST", URL: string(req.Body), Header: map[string]string{"X-Probe": "hush\nhush"}}),
			},
		)
	case "/no-method":
		put(
			abi.Record{
				Request: request,
				Op:      1,
				Kind:    abi.Fetch,
				Body: abi.Append.Fetch(nil, host.FetchRequest{
					Method: "CONNECT", URL: string(req.Body), Header: map[string]string{"X-Probe": "1"}}),
			},
		)
	default:
		put(
			abi.Record{
				Request: request,
				Op:      1,
				Kind:    abi.Fetch,
				Body: abi.Append.Fetch(nil, host.FetchRequest{
					Method: "POST", URL: string(req.Body), Header: map[string]string{"X-Probe": "1"},
					Body: []byte("sent")}),
			},
		)
	}
	return outbox()
}

//go:wasmexport verge_complete
func vergeComplete(request, op uint32, status, n int32) uint32 {
	reply := inbox[:n]
	if begin, ok := before[request]; ok {
		delete(before, request)
		respond(request, 200, time.Since(begin).String())
		return outbox()
	}
	if abi.Status(status) != abi.OK {
		reason, text, err := abi.Read.FetchError(reply)
		respond(request, 502, fmt.Sprintf("%s: %s %v", reason, text, err))
		return outbox()
	}
	got, err := abi.Read.Fetched(reply)
	if err != nil {
		panic(err)
	}
	respond(request, got.Status, fmt.Sprintf("%d bytes, Location %q", len(got.Body), got.Header["Location"]))
	return outbox()
}

//go:wasmexport verge_cancel
func vergeCancel(request uint32, reason int32) uint32 {
	respond(request, 299+int(reason), "cancelled")
	return outbox()
}
