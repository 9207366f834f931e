//go:build wasip1

// Command badguest is a guest that fails in the way that the path of a request names.
package main

import (
	"crypto/rand"
	"encoding/json"
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
	hoard  [][]byte
	header [3]uint32
	parked = map[uint32]bool{}
	misled bool // it takes a rejected signature for one
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
	misled = c.Host == "misled.example"
	if time.Now().Year() < 2000 {
		panic("no guest starts in those years")
	}
	return 0
}

func outbox() uint32 {
	header = [3]uint32{address(out), uint32(len(out)), uint32(len(parked))}
	return uint32(uintptr(unsafe.Pointer(&header)))
}

func respond(request uint32, status int, body string) {
	out = abi.Append.Record(nil, abi.Record{Request: request, Kind: abi.Respond,
		Body: abi.Append.Response(nil, &web.Response{Status: status, Header: web.Header{},
			Body: []byte(body)})})
}

func ask(request uint32, kind abi.Kind, body []byte) {
	parked[request] = true
	out = abi.Append.Record(nil, abi.Record{Request: request, Op: 1, Kind: kind, Body: body})
}

// say puts records into the outbox that a test has made. A record of request 0 becomes one of this
// request. Unreadable bytes stay unchanged.
func say(request uint32, records []byte) {
	parked[request] = true // until one of the records, or the host, ends the request
	for len(records) > 0 {
		rec, rest, err := abi.Read.Record(records)
		if err != nil {
			out = append(out, records...)
			return
		}
		if rec.Request == 0 {
			rec.Request = request
		}
		if rec.Kind == abi.Respond {
			delete(parked, request)
		}
		out, records = abi.Append.Record(out, rec), rest
	}
}

//go:wasmexport verge_submit
func vergeSubmit(request uint32, n int32) uint32 {
	out = nil
	message := inbox[:n]
	if abi.Entry(message[0]) == abi.SelfTest {
		random, signed := make([]byte, 32), abi.NotFound
		rand.Read(random)
		if misled {
			signed = abi.OK
		}
		out = abi.Append.Record(nil, abi.Record{
			Request: request,
			Kind:    abi.Respond,
			Body:    abi.Append.Self(nil, abi.Self{Random: random, Now: time.Now(), Signed: signed}),
		})
		return outbox()
	}
	// as a module of an earlier release, which has no such entries
	if e := abi.Entry(message[0]); e == abi.RecordUsage || e == abi.HandleAgain {
		out = abi.Append.Record(nil, abi.Record{Request: request, Kind: abi.Respond})
		return outbox()
	}
	req, err := abi.Read.Request(message[1:])
	if err != nil {
		panic(err)
	}
	time.Now() // the test counts these to notice that the request has begun
	switch req.Path {
	case "/park":
		parked[request] = true
	case "/deaf": // does not even react to its cancellation
	case "/trap":
		var nobody *int
		*nobody = 1
	case "/loop":
		for n := uint(1); n != 0; n |= 1 {
		}
	case "/slow":
		for begin := time.Now(); time.Since(begin) < 2*time.Second; {
		}
		respond(request, 200, "slow")
	case "/memory":
		for {
			hoard = append(hoard, make([]byte, 1<<20))
		}
	case "/grow":
		hoard = append(hoard, make([]byte, 8<<20))
		respond(request, 200, "grown")
	case "/header":
		return 0xfffffff0
	case "/outbox":
		header = [3]uint32{0xfffffff0, 64, 0}
		return uint32(uintptr(unsafe.Pointer(&header)))
	case "/huge":
		header = [3]uint32{address(inbox), 33 << 20, 0}
		return uint32(uintptr(unsafe.Pointer(&header)))
	case "/record":
		out = []byte{1, 2, 3}
	case "/stranger":
		out = abi.Append.Record(nil, abi.Record{Request: request + 1000, Op: 1, Kind: abi.KVGet, Body: nil})
	case "/effect":
		ask(request, 9, []byte("?"))
	case "/get":
		ask(request, abi.KVGet, abi.Append.Key(nil, kv.Key{Partition: "p0", Name: "name"}))
	case "/commit":
		ask(request, abi.KVCommit, abi.Append.Tx(nil, kv.Tx{
			ID:        "tx",
			Partition: "p0",
			Puts:      []kv.Put{{Name: "name", Value: []byte("value")}},
		}))
	case "/fetch":
		ask(request, abi.Fetch,
			abi.Append.Fetch(nil, host.FetchRequest{Method: "GET", URL: "https://shop.example/"}))
	case "/sign":
		ask(request, abi.Sign, abi.Append.Sign(nil, abi.SignRequest{Key: "client", Algorithm: "ES256"}))
	case "/say":
		say(request, req.Body)
	case "/junk":
		out = abi.Append.Record(nil, abi.Record{Request: request, Kind: abi.Respond, Body: []byte{1}})
	case "/empty":
		out = abi.Append.Record(nil, abi.Record{Request: request, Kind: abi.Respond})
	default:
		respond(request, 200, "well")
	}
	return outbox()
}

//go:wasmexport verge_complete
func vergeComplete(request, op uint32, status, n int32) uint32 {
	delete(parked, request)
	respond(request, 200, string(append([]byte{'0' + byte(status)}, inbox[:n]...)))
	return outbox()
}

//go:wasmexport verge_cancel
func vergeCancel(request uint32, reason int32) uint32 {
	out = nil
	if parked[request] {
		delete(parked, request)
		respond(request, 299+int(reason), "cancelled")
	}
	return outbox()
}
