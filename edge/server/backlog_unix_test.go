//go:build unix

package server

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// crowded is a listener on which a connection waits. It is accepted once the door has asked twice whether one
// does.
type crowded struct {
	*net.TCPListener
	t     testing.TB
	asked int
	empty bool // no connection waits
}

func (l *crowded) SyscallConn() (syscall.RawConn, error) {
	if l.asked++; l.asked == 3 {
		conn, err := l.Accept()
		if err != nil {
			l.t.Fatal(err)
		}
		conn.Close()
		l.empty = true
	}
	return l.TCPListener.SyscallConn()
}

func (l *crowded) Close() error {
	if !l.empty {
		l.t.Error("the listener is closed while a connection waits, which the kernel then resets")
	}
	return l.TCPListener.Close()
}

func TestAListenerClosesWhenNoConnectionWaits(t *testing.T) {
	l := &crowded{TCPListener: listen(t).(*net.TCPListener), t: t}
	dial(t, "http://"+l.Addr().String())
	d := &door{l: l}
	d.stopAccepting(time.Hour)
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the listener is not closed")
	}
}
