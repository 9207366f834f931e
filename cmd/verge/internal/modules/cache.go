package modules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"
	"github.com/tetratelabs/wazero"

	"github.com/verge-id/verge/edge/wasmhost"
)

// Cache keeps compiled modules in a directory, so that a restart need not compile. A nil Cache keeps
// none.
//
// The files are machine code. Anyone who can write to the directory decides which code the server runs,
// despite pins and signatures. Therefore only the server's user may be able to write there, or to the parent
// directories: otherwise another user could replace the directory. A directory that is open to other users is
// not used.
//
// A disk can lose bytes, and a process can end in the middle of a write. So each module has a list of its
// files with their SHA-256, in the format of sha256sum. A file that differs from its list is removed before
// it is used. The library itself checks only a part of each file: it fails to start on errors that it finds,
// and runs code that it does not check.
//
// A faulty cache never makes a start fail. Without the cache a start only takes longer.
type Cache struct {
	dir      string
	fs       afero.Fs
	compiled wazero.CompilationCache
	now      func() time.Time
	log      *slog.Logger
}

// keptModules is how many modules stay in the cache. The least recently used ones are removed.
const keptModules = 4

// OpenCache returns the cache in a directory. It returns nil if dir is empty or the directory cannot be
// used. In the second case the log has the reason.
func OpenCache(dir string, now func() time.Time, log *slog.Logger) *Cache {
	if dir == "" {
		return nil
	}
	c := &Cache{dir: dir, fs: afero.NewOsFs(), now: now, log: log}
	err := c.fs.MkdirAll(dir, 0o700)
	if err == nil {
		c.dir, err = resolved(c.fs, dir) // a link may change after the check, so it is followed only once
	}
	if err == nil {
		err = ownDirectory(c.fs, c.dir)
	}
	if err == nil {
		c.compiled, err = wazero.NewCompilationCacheWithDir(c.dir)
	}
	if err != nil {
		log.Warn("compiled modules not cached", "error", err.Error())
		return nil
	}
	return c
}

// CheckCache rejects a directory that other users can write to or replace. The directory need not exist.
func CheckCache(fsys afero.Fs, dir string) error {
	err := ownDirectory(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return ownParents(fsys, dir)
	}
	return err
}

// ownDirectory is CheckCache for a directory that exists.
func ownDirectory(fsys afero.Fs, dir string) error {
	info, err := fsys.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others (mode %04o), who could put any code there: "+
			"run `chmod 700 %s`, and empty it if others could", dir, info.Mode().Perm(), dir)
	case !ownedByUs(info):
		return fmt.Errorf("%s belongs to another user, who could put any code there", dir)
	}
	return ownParents(fsys, dir)
}

// ownParents rejects a directory if another user can rename a parent directory. The directory need not exist.
// sshd has the same rule for key files. If the sticky bit is set, as on /tmp, users cannot rename other
// users' files.
func ownParents(fsys afero.Fs, dir string) error {
	at, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	at = filepath.Dir(at)
	missing := func() bool {
		_, err := fsys.Stat(at)
		return errors.Is(err, fs.ErrNotExist)
	}
	for missing() && at != filepath.Dir(at) {
		at = filepath.Dir(at)
	}
	if at, err = resolved(fsys, at); err != nil {
		return err
	}
	for ; ; at = filepath.Dir(at) {
		info, err := fsys.Stat(at)
		switch {
		case err != nil:
			return err
		case !ownedByUs(info):
			return fmt.Errorf("%s is in %s, which belongs to another user, who could put another "+
				"directory there",
				dir, at)
		case info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
			return fmt.Errorf("%s is in %s, which can be written by others (mode %04o), who "+
				"could put another directory there: run `chmod go-w %s`, or choose another directory",
				dir, at, info.Mode().Perm(), at)
		case at == filepath.Dir(at):
			return nil
		}
	}
}

// resolved returns the absolute path without links.
func resolved(fsys afero.Fs, path string) (string, error) {
	path, err := filepath.Abs(path)
	if _, disk := fsys.(*afero.OsFs); err == nil && disk {
		path, err = filepath.EvalSymlinks(path)
	}
	return path, err
}

// before removes files that must not be read for the module: its own that differ from its list, and
// those that no list has. It returns the SHA-256 of the module's other files by path, for after.
func (c *Cache) before(digest string) (checked map[string]string) {
	if c == nil {
		return nil
	}
	lists, err := c.lists()
	if err != nil {
		c.log.Error("module cache not read", "error", err.Error())
	}
	listed := map[string]bool{}
	for _, list := range lists {
		for path := range list {
			listed[path] = true
		}
	}
	checked = map[string]string{}
	for _, path := range c.files() {
		switch sum, mine := lists[digest][path]; {
		case mine && c.sum(path) != sum:
			c.log.Warn("damaged compiled module removed", "file", path)
			c.remove(path)
		case mine:
			checked[path] = sum
		case !listed[path] && (!strings.HasSuffix(path, ".tmp") || c.older(path, time.Hour)):
			c.remove(path) // the process that wrote it ended before it listed it
		}
	}
	return checked
}

// after lists the files of the module, which has been compiled or read, and removes the least recently
// used modules. It does not read the files that before has checked.
func (c *Cache) after(digest string, checked map[string]string) {
	if c == nil {
		return
	}
	lists, err := c.lists()
	if err != nil {
		return // before has logged it
	}
	others := map[string]bool{}
	for module, list := range lists {
		for path := range list {
			others[path] = others[path] || module != digest
		}
	}
	var text bytes.Buffer
	for _, path := range c.files() {
		if others[path] || strings.HasSuffix(path, ".tmp") {
			continue
		}
		sum := checked[path]
		if sum == "" {
			sum = c.sum(path)
		}
		if sum != "" {
			fmt.Fprintf(&text, "%s  %s\n", sum, path)
		}
	}
	// The list is written even without a change, because its time is the time of the last use.
	if err := c.write(c.listFile(digest), text.Bytes()); err != nil {
		c.log.Warn("module cache not written", "error", err.Error())
		return
	}
	delete(lists, digest)
	modules := slices.Collect(maps.Keys(lists))
	slices.SortFunc(modules, func(a, b string) int { return c.used(b).Compare(c.used(a)) })
	for n, module := range modules {
		if n >= keptModules-1 {
			c.remove(module + listSuffix) // before removes the files next time, since no list has them
		}
	}
}

// write replaces a list as a whole, so that a server that starts meanwhile reads the old list or the new
// one.
func (c *Cache) write(path string, list []byte) error {
	f, err := afero.TempFile(c.fs, c.dir, ".list-*")
	if err != nil {
		return err
	}
	_, err = f.Write(list)
	if err = errors.Join(err, f.Close()); err == nil {
		err = c.fs.Rename(f.Name(), path)
	}
	if err != nil {
		c.fs.Remove(f.Name())
	}
	return err
}

const listSuffix = ".sha256"

func (c *Cache) listFile(digest string) string {
	return filepath.Join(c.dir, digest+listSuffix)
}

// lists returns the SHA-256 of each module's files by path.
func (c *Cache) lists() (map[string]map[string]string, error) {
	names, err := afero.Glob(c.fs, filepath.Join(c.dir, "*"+listSuffix))
	if err != nil {
		return nil, err
	}
	lists := map[string]map[string]string{}
	for _, name := range names {
		b, err := afero.ReadFile(c.fs, name)
		if err != nil {
			return nil, err
		}
		list := map[string]string{}
		for line := range strings.Lines(string(b)) {
			if sum, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  "); ok {
				list[path] = sum
			}
		}
		lists[strings.TrimSuffix(filepath.Base(name), listSuffix)] = list
	}
	return lists, nil
}

// files returns the paths within the directory of the files that the library keeps. It has a directory
// for each of its versions.
func (c *Cache) files() (paths []string) {
	all, _ := afero.Glob(c.fs, filepath.Join(c.dir, "wazero-*", "*"))
	for _, path := range all {
		if short, err := filepath.Rel(c.dir, path); err == nil {
			paths = append(paths, short)
		}
	}
	return paths
}

// sum returns "" for a file that cannot be read.
func (c *Cache) sum(path string) string {
	f, err := c.fs.Open(filepath.Join(c.dir, path))
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (c *Cache) used(module string) time.Time {
	info, err := c.fs.Stat(c.listFile(module))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (c *Cache) older(path string, age time.Duration) bool {
	info, err := c.fs.Stat(filepath.Join(c.dir, path))
	return err == nil && c.now().Sub(info.ModTime()) > age
}

func (c *Cache) remove(path string) {
	if err := c.fs.Remove(filepath.Join(c.dir, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("module cache not cleaned", "error", err.Error())
	}
}

// Compile compiles a module, or reads the compiled one from the cache. The caller closes it.
func (c *Cache) Compile(ctx context.Context, m Module) (*wasmhost.Module, error) {
	checked := c.before(m.Digest)
	compiled, err := wasmhost.Compile(ctx, m.WASM, wasmhost.CompileConfig{Cache: c.library()})
	if err == nil {
		c.after(m.Digest, checked)
	}
	return compiled, err
}

// library returns the cache in the library's own type.
func (c *Cache) library() wazero.CompilationCache {
	if c == nil {
		return nil
	}
	return c.compiled
}
