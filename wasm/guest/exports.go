//go:build wasip1

package main

import (
	"unsafe"

	"github.com/verge-id/verge/wasm/abi"
)

// The exports share these variables. They run one at a time.
var (
	instance *guest // nil until configured
	inbox    []byte
	complain []byte // the error of the last verge_config

	// header is the memory at the address that exports return: address and length of the outbox, and the
	// number of requests in progress.
	header [3]uint32
)

func address(b []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// message removes the first n bytes of the inbox. Each message has separate memory, because values that are
// read from it may refer to it for any length of time.
func message(n int32) []byte {
	if n < 0 || int(n) > len(inbox) {
		panic("more bytes than were reserved")
	}
	m := inbox[:n:n]
	inbox = nil
	return m
}

func outbox() uint32 {
	out := instance.take()
	header = [3]uint32{address(out), uint32(len(out)), uint32(len(instance.tasks))}
	return uint32(uintptr(unsafe.Pointer(&header)))
}

//go:wasmexport verge_abi
func vergeABI() int32 { return abi.Version }

//go:wasmexport verge_reserve
func vergeReserve(n int32) uint32 {
	if n < 0 || n > abi.MaxInbox {
		return 0
	}
	inbox = make([]byte, max(n, 1))
	return address(inbox)
}

//go:wasmexport verge_config
func vergeConfig(n int32) uint32 {
	g, err := configure(message(n), offered())
	if err != nil {
		complain = []byte(err.Error())
		header = [3]uint32{address(complain), uint32(len(complain)), 0}
		return uint32(uintptr(unsafe.Pointer(&header)))
	}
	instance = g
	return 0
}

//go:wasmexport verge_submit
func vergeSubmit(request uint32, n int32) uint32 {
	instance.submit(request, message(n))
	return outbox()
}

//go:wasmexport verge_complete
func vergeComplete(request, op uint32, status, n int32) uint32 {
	instance.complete(request, op, abi.Status(status), message(n))
	return outbox()
}

//go:wasmexport verge_cancel
func vergeCancel(request uint32, reason int32) uint32 {
	instance.cancel(request, abi.Reason(reason))
	return outbox()
}
