//go:build unix

package server

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// backlogListener is a listener on which a connection waits to be accepted. It is accepted after the server
// has asked twice whether one waits.
type backlogListener struct {
	*net.TCPListener
	t     testing.TB
	asked int
	empty bool // no connection waits
}

func (l *backlogListener) SyscallConn() (syscall.RawConn, error) {
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

func (l *backlogListener) Close() error {
	if !l.empty {
		l.t.Error("the listener is closed while a connection waits, which the kernel then resets")
	}
	return l.TCPListener.Close()
}

func TestListener_ClosesWithEmptyBacklog(t *testing.T) {
	backlog := &backlogListener{TCPListener: listen(t).(*net.TCPListener), t: t}
	dial(t, "http://"+backlog.Addr().String())
	l := &listener{socket: backlog}
	l.stopAccepting(time.Hour)
	if _, err := net.Dial("tcp", backlog.Addr().String()); err == nil {
		t.Error("the listener is not closed")
	}
}
