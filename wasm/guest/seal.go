//go:build wasip1

package main

import (
	"errors"
	"runtime"
	"time"
	"unsafe"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/wasm/abi"
)

// The host's imports. Each writes its result to out, which has the capacity room, and returns the result's
// length or one of the negative results of package abi.

//go:wasmimport verge seal
//go:noescape
func importSeal(purpose unsafe.Pointer, purposeLen uint32, claims unsafe.Pointer, claimsLen uint32,
	out unsafe.Pointer, room uint32) int32

//go:wasmimport verge open
//go:noescape
func importOpen(purpose unsafe.Pointer, purposeLen uint32, sealed unsafe.Pointer, sealedLen uint32,
	out unsafe.Pointer, room uint32) int32

//go:wasmimport verge mac
//go:noescape
func importMAC(purpose unsafe.Pointer, purposeLen uint32, message unsafe.Pointer, messageLen uint32,
	out unsafe.Pointer, room uint32) int32

// importCheckMAC takes the message followed by its MAC.
//
//go:wasmimport verge check_mac
//go:noescape
func importCheckMAC(purpose unsafe.Pointer, purposeLen uint32, message unsafe.Pointer, messageLen uint32,
	out unsafe.Pointer, room uint32) int32

// hostSealer is a Sealer whose keys stay in the host.
type hostSealer struct{}

// offered returns the host's Sealer, or nil if it has none.
func offered() host.Sealer {
	var s hostSealer
	if _, err := s.MAC("self-test", nil); errors.Is(err, errNotOffered) {
		return nil
	}
	return s
}

var errNotOffered = errors.New("the host does not offer to seal")

func data(s string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))
}

func slice(b []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))
}

// envelope returns the capacity for the result of seal or open of n bytes: an envelope is a third longer
// than its content and has a header.
func envelope(n int) int { return 2*n + 512 }

// macRoom is the capacity for a MAC.
const macRoom = 64

// sealed calls an import with capacity for its result.
func sealed(
	f func(purpose unsafe.Pointer, purposeLen uint32, in unsafe.Pointer, inLen uint32, out unsafe.Pointer,
		room uint32) int32, purpose string, in []byte, room int,
) ([]byte, error) {
	out := make([]byte, room)
	p, pn := data(purpose)
	i, in_ := slice(in)
	o, on := slice(out)
	n := f(p, pn, i, in_, o, on)
	runtime.KeepAlive(in)
	runtime.KeepAlive(out)
	switch {
	case n >= 0 && int(n) <= len(out):
		return out[:n], nil
	case n == abi.SealNotAuthentic:
		return nil, host.ErrNotAuthentic
	case n == abi.SealKeyAwaited:
		return nil, host.ErrKeyAwaited
	case n == abi.SealNotOffered:
		return nil, errNotOffered
	}
	return nil, errors.New("the host cannot seal")
}

// Seal implements host.Sealer.
func (hostSealer) Seal(purpose string, claims []byte) ([]byte, error) {
	return sealed(importSeal, purpose, claims, envelope(len(claims)))
}

// Open implements host.Sealer.
func (hostSealer) Open(purpose string, envelopeOf []byte) (claims []byte, until time.Time, err error) {
	out, err := sealed(importOpen, purpose, envelopeOf, envelope(len(envelopeOf)))
	if err != nil {
		return nil, until, err
	}
	return abi.Read.Until(out)
}

// MAC implements host.Sealer.
func (hostSealer) MAC(purpose string, message []byte) ([]byte, error) {
	return sealed(importMAC, purpose, message, macRoom)
}

// CheckMAC implements host.Sealer.
func (hostSealer) CheckMAC(purpose string, message, mac []byte) (until time.Time, err error) {
	if len(mac) != host.MACSize {
		return until, host.ErrNotAuthentic
	}
	both := append(append(make([]byte, 0, len(message)+len(mac)), message...), mac...)
	out, err := sealed(importCheckMAC, purpose, both, macRoom)
	if err != nil {
		return until, err
	}
	_, until, err = abi.Read.Until(out)
	return until, err
}
