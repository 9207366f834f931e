//go:build unix

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/wait"
)

// foreignFs is a file system in which another user owns the file at path.
type foreignFs struct {
	afero.Fs
	path     string
	rejected error // of a change of the owner
	given    []any // owner, group and mode of the new file, before it has the name
}

type foreignFile struct{ fs.FileInfo }

func (foreignFile) Sys() any { return &syscall.Stat_t{Uid: 4711, Gid: 4712} }

func (f *foreignFs) Stat(name string) (fs.FileInfo, error) {
	info, err := f.Fs.Stat(name)
	if err == nil && name == f.path {
		info = foreignFile{info}
	}
	return info, err
}

func (f *foreignFs) Chown(_ string, uid, gid int) error {
	f.given = append(f.given, uid, gid)
	return f.rejected
}

func (f *foreignFs) Chmod(name string, mode fs.FileMode) error {
	f.given = append(f.given, mode)
	return f.Fs.Chmod(name, mode)
}

func (f *foreignFs) Rename(from, to string) error {
	f.given = append(f.given, "renamed")
	return f.Fs.Rename(from, to)
}

// The server reads a secret file as another user than the one who replaces it.
func TestWritePrivate_KeepsOwner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule      string
		mode, new fs.FileMode
		rejected  error
	}{
		{"the group reads it", 0o640, 0o640, nil},
		{"the owner reads it", 0o400, 0o400, nil},
		{"all users read it", 0o664, 0o640, nil},
		{"another user's file", 0o640, 0, syscall.EPERM},
	} {
		dir := t.TempDir()
		f := &foreignFs{Fs: afero.NewOsFs(), path: filepath.Join(dir, "ring"), rejected: c.rejected}
		if err := WritePrivate(f, f.path, []byte("old")); err != nil || len(f.given) != 1 {
			t.Fatalf("%s: a new file: %v, changes %v", c.rule, err, f.given)
		}
		if info, err := os.Stat(f.path); err != nil || info.Mode() != 0o600 {
			t.Fatalf("%s: a new file: %v, %v", c.rule, info, err)
		}
		if err := os.Chmod(f.path, c.mode); err != nil {
			t.Fatal(err)
		}
		f.given = nil
		err := WritePrivate(f, f.path, []byte("new"))
		b, _ := os.ReadFile(f.path)
		if c.rejected != nil {
			if err == nil || string(b) != "old" || !strings.Contains(err.Error(), "run the command as root") {
				t.Errorf("%s: %v, and the file has %q", c.rule, err, b)
			}
		} else if err != nil || string(b) != "new" || len(f.given) != 4 || f.given[0] != 4711 ||
			f.given[1] != 4712 || f.given[2] != c.new || f.given[3] != "renamed" {
			t.Errorf("%s: %v, the file has %q, changes %v", c.rule, err, b, f.given)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("%s: %d files are left, %v", c.rule, len(names), err)
		}
	}
}

// TestWritePrivate_Link replaces the file behind a symbolic link (contract 16).
func TestWritePrivate_Link(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "secrets", "ring"), filepath.Join(dir, "ring")
	err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("old"), 0o600),
		os.Symlink(file, link), WritePrivate(afero.NewOsFs(), link, []byte("new")))
	b, readErr := os.ReadFile(file)
	info, linkErr := os.Lstat(link)
	if err := errors.Join(err, readErr, linkErr); err != nil {
		t.Fatal(err)
	}
	if string(b) != "new" || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the file has %q, and the link is %v", b, info.Mode())
	}
}

// TestWritePrivate_DanglingLink keeps a link whose file is missing: the file may be on a disk that is not
// mounted yet.
func TestWritePrivate_DanglingLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "ring")
	if err := os.Symlink(filepath.Join(dir, "secrets", "ring"), link); err != nil {
		t.Fatal(err)
	}
	err := WritePrivate(afero.NewOsFs(), link, []byte("new"))
	if err == nil || !strings.Contains(err.Error(), "which does not exist; remove the link") {
		t.Errorf("the error is %v", err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is %v, %v", info, err)
	}
}

// closed is a file system with a directory that this process cannot enter.
type closed struct{ afero.Fs }

func (c closed) OpenFile(name string, flag int, mode os.FileMode) (afero.File, error) {
	if strings.HasPrefix(name, "/etc/verge/") {
		return nil, os.ErrPermission
	}
	return c.Fs.OpenFile(name, flag, mode)
}

func (c closed) Stat(name string) (os.FileInfo, error) {
	if strings.HasPrefix(name, "/etc/verge/") {
		return nil, os.ErrPermission
	}
	return c.Fs.Stat(name)
}

func TestReadPrivate_ClosedDirectory(t *testing.T) {
	fsys := afero.NewMemMapFs()
	if err := fsys.MkdirAll("/etc/verge/keys", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := ReadPrivate(closed{fsys}, "/etc/verge/keys/ring.json")
	if err == nil || !strings.Contains(err.Error(), "cannot enter /etc/verge; ") {
		t.Errorf("%v", err)
	}
}

// A pipe with a writer has the secret. Without a writer, it does not block the program.
func TestReadPrivate_Pipe(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadPrivate(afero.NewOsFs(), fifo)
	if err == nil || !strings.Contains(err.Error(), "give a file") {
		t.Errorf("without a writer: %v", err)
	}
	written := make(chan error, 1)
	var b []byte
	wait.Until(t, "a late writer's secret", func() bool { // a slow machine may start the writer too late
		go func() { written <- os.WriteFile(fifo, []byte("late"), 0) }()
		if b, err = ReadPrivate(afero.NewOsFs(), fifo); err != nil {
			r, openErr := os.OpenFile(fifo, os.O_RDWR|syscall.O_NONBLOCK, 0) // lets the writer end
			if openErr != nil {
				t.Fatal(openErr)
			}
			defer r.Close()
		}
		return errors.Join(err, wait.For(written)) == nil
	})
	if string(b) != "late" {
		t.Errorf("with a late writer: %q", b)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		time.Sleep(2 * pipeTime) // such as a program that asks for a passphrase
		_, err := w.WriteString("slow")
		written <- errors.Join(err, w.Close())
	}()
	b, err = ReadPrivate(afero.NewOsFs(), fmt.Sprintf("/dev/fd/%d", r.Fd()))
	if err := errors.Join(err, wait.For(written)); err != nil || string(b) != "slow" {
		t.Errorf("a process substitution: %q, %v", b, err)
	}
}

func TestWritePrivate_AsRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	path := filepath.Join(t.TempDir(), "ring")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 0, 4711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := WritePrivate(afero.NewOsFs(), path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 || ownerOf(info) != (owner{0, 4711}) {
		t.Errorf("mode %v, owner %+v, %v", info.Mode(), ownerOf(info), err)
	}
}
