package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// onlyKnown is a socket filter, run on each segment from the TCP header on,
// that drops the first segment of a connection and keeps the others: a
// handshake that has begun is completed.
var onlyKnown = [...]unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},                   // the flags
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: 0x02, Jt: 0, Jf: 1}, // SYN?
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
}

// refuseNew makes the kernel ignore who newly wants to connect, while those
// whose connection it sets up already can still be accepted: closing the
// listener would reset them, with the request that they may have sent. Who is
// ignored tries again within a second and is refused by the closed listener,
// or served by whoever listens then. The result reports whether connections
// still wait to be accepted; it is nil where none of this can be done.
func refuseNew(l net.Listener) (waiting func() bool) {
	sc, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	var set error
	err = rc.Control(func(fd uintptr) {
		set = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(onlyKnown)), Filter: &onlyKnown[0]})
	})
	if err != nil || set != nil {
		return nil
	}
	return func() bool {
		n := 0
		rc.Control(func(fd uintptr) {
			// A listening socket is readable while its queue is not empty.
			n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		})
		return n > 0
	}
}
