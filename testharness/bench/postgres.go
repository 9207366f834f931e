package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/postgres"
)

// hasPostgres reports whether the program is installed.
func hasPostgres() bool {
	_, err := exec.LookPath("postgres")
	return err == nil
}

// onPostgres runs one PostgreSQL on a loopback port, with fsync as it is by default.
func onPostgres() (kv.KV, func() string, error) {
	program, err := exec.LookPath("postgres")
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return nil, nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "verge-bench-")
	if err != nil {
		return nil, nil, err
	}
	as, err := unprivileged(dir)
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(filepath.Dir(program), "initdb"), "-D", data, "--no-sync",
		"-A", "trust", "-U", "verge", "-E", "UTF8", "--no-locale")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return nil, nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	server := exec.Command(program, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=")
	server.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if err := server.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	stop := func() string {
		server.Process.Signal(syscall.SIGINT)
		server.Wait()
		os.RemoveAll(dir)
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	url := "postgres://verge@" + addr + "/postgres?sslmode=disable"
	for ctx.Err() == nil {
		var c *pgx.Conn
		if c, err = pgx.Connect(ctx, url); err == nil {
			c.Close(ctx)
			var store *postgres.Store
			if store, err = postgres.Open(ctx, url, postgres.Config{}); err == nil {
				return store, func() string { store.Close(); return stop() }, nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return nil, nil, err
}

// unprivileged is who runs the server, which refuses to run as root, and then owns the directory.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}
