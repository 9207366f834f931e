package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/etcd"
	"github.com/verge-id/verge/kvadapters/memory"
)

// storage opens an empty store. closed ends it and returns a note on how it was
// used.
type storage func() (store kv.KV, closed func() string, err error)

func onMemory() (kv.KV, func() string, error) {
	return memory.New(memory.Config{}), func() string { return "" }, nil
}

func onBolt() (kv.KV, func() string, error) {
	dir, err := os.MkdirTemp("", "verge-bench-")
	if err != nil {
		return nil, nil, err
	}
	store, err := bolt.Open(filepath.Join(dir, "verge.db"), bolt.Config{})
	if err != nil {
		return nil, nil, err
	}
	return store, func() string {
		s := store.Stats()
		store.Close()
		os.RemoveAll(dir)
		return fmt.Sprintf("%.1f commits a write, largest %d", s.Mean(), s.Largest)
	}, nil
}

var errNoEtcd = errors.New("etcd is not installed")

// onEtcd runs one etcd, on loopback ports.
func onEtcd() (kv.KV, func() string, error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return nil, nil, errNoEtcd
	}
	clients, err := freeAddr()
	if err != nil {
		return nil, nil, err
	}
	peers, err := freeAddr()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "verge-bench-")
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(program, "--name", "bench", "--data-dir", filepath.Join(dir, "data"),
		"--log-level", "error",
		"--listen-client-urls", "http://"+clients, "--advertise-client-urls", "http://"+clients,
		"--listen-peer-urls", "http://"+peers, "--initial-advertise-peer-urls", "http://"+peers,
		"--initial-cluster", "bench=http://"+peers)
	cmd.Env = []string{"ETCD_UNSUPPORTED_ARCH=arm64"} // etcd does not run on arm64 without it
	if err := cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	stop := func() string {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(dir)
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		var store *etcd.Store
		if store, err = etcd.Open(ctx, "etcd://"+clients+"/bench", etcd.Config{}); err == nil {
			return store, func() string { store.Close(); return stop() }, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return nil, nil, err
}
