package main

import (
	"bytes"
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
)

// compiledModules keeps compiled modules in a directory, so that a restart need
// not compile.
//
// What is in there is machine code: whoever can write into the directory
// decides what the server runs, whatever is pinned or signed. So it must be
// writable by nobody but the server's user, and so must all above it, or
// somebody could put another directory in its place; one that is open to others
// is not used. Against a disk that loses bytes, and a process that ended in the middle
// of a write, each module has a list of its files with their SHA-256, in the
// format of sha256sum, and a file that is not as listed is removed before it is
// read: the library itself checks a part of it, refuses to start on what it
// finds wrong, and would run into what it does not check.
//
// Nothing here makes a start fail: without the cache it is only slower.
type compiledModules struct {
	dir      string
	fs       afero.Fs
	compiled wazero.CompilationCache
	now      func() time.Time
	log      *slog.Logger
}

// keptModules is how many modules stay in the cache, those that were used last.
const keptModules = 4

// openCompiledModules returns nil if there is to be none, or can be none.
func openCompiledModules(dir string, now func() time.Time, log *slog.Logger) *compiledModules {
	if dir == "" {
		return nil
	}
	c := &compiledModules{dir: dir, fs: afero.NewOsFs(), now: now, log: log}
	err := c.fs.MkdirAll(dir, 0o700)
	if err == nil {
		c.dir, err = resolved(c.fs, dir) // what is checked is what is used, wherever a link on the way leads later
	}
	if err == nil {
		err = ownDirectory(c.fs, c.dir)
	}
	if err == nil {
		c.compiled, err = wazero.NewCompilationCacheWithDir(c.dir)
	}
	if err != nil {
		log.Warn("compiled modules are not kept", "error", err.Error())
		return nil
	}
	return c
}

// ownDirectory refuses a directory that others can write into, or can put
// another one in the place of.
func ownDirectory(fsys afero.Fs, dir string) error {
	info, err := fsys.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others (mode %04o), who could put any code there: run `chmod 700 %s`, and empty it if others could", dir, info.Mode().Perm(), dir)
	case !ownedByUs(info):
		return fmt.Errorf("%s belongs to another user, who could put any code there", dir)
	}
	return ownParents(fsys, dir)
}

// ownParents refuses a directory, which need not be there yet, if somebody else
// can rename one above it, as sshd does with the files of keys. Where the sticky
// bit is set, as on /tmp, nobody can rename what is another's.
func ownParents(fsys afero.Fs, dir string) error {
	at, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	at = filepath.Dir(at)
	for _, err = fsys.Stat(at); isMissing(err) && at != filepath.Dir(at); _, err = fsys.Stat(at) {
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
			return fmt.Errorf("%s is in %s, which belongs to another user, who could put another directory there", dir, at)
		case info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
			return fmt.Errorf("%s is in %s, which can be written by others (mode %04o), who could put another directory there: run `chmod go-w %s`, or choose another directory",
				dir, at, info.Mode().Perm(), at)
		case at == filepath.Dir(at):
			return nil
		}
	}
}

// resolved is the path without links, from the root.
func resolved(fsys afero.Fs, path string) (string, error) {
	path, err := filepath.Abs(path)
	if _, disk := fsys.(*afero.OsFs); err == nil && disk {
		path, err = filepath.EvalSymlinks(path)
	}
	return path, err
}

// before makes the directory fit to be read for the module.
func (c *compiledModules) before(digest string) {
	if c == nil {
		return
	}
	lists, err := c.lists()
	if err != nil {
		c.log.Error("the cache of compiled modules cannot be read", "error", err.Error())
	}
	listed := map[string]bool{}
	for _, list := range lists {
		for path := range list {
			listed[path] = true
		}
	}
	for _, path := range c.files() {
		switch sum, mine := lists[digest][path]; {
		case mine && c.sum(path) != sum:
			c.log.Warn("a compiled module was damaged and is compiled anew", "file", path)
			c.remove(path)
		case !listed[path] && (!strings.HasSuffix(path, ".tmp") || c.older(path, time.Hour)): // of a process that ended before it said what it is
			c.remove(path)
		}
	}
}

// after notes what the directory holds of the module, which has been compiled
// or read, and removes what has not been used for longest.
func (c *compiledModules) after(digest string) {
	if c == nil {
		return
	}
	lists, err := c.lists()
	if err != nil {
		return // said before
	}
	others := map[string]bool{}
	for module, list := range lists {
		for path := range list {
			others[path] = others[path] || module != digest
		}
	}
	var text bytes.Buffer
	for _, path := range c.files() {
		if sum := c.sum(path); !others[path] && !strings.HasSuffix(path, ".tmp") && sum != "" {
			fmt.Fprintf(&text, "%s  %s\n", sum, path)
		}
	}
	if err := writePrivate(c.fs, c.listFile(digest), text.Bytes()); err != nil { // written again, so that its time is that of its last use
		c.log.Warn("the cache of compiled modules cannot be written", "error", err.Error())
		return
	}
	delete(lists, digest)
	modules := slices.Collect(maps.Keys(lists))
	slices.SortFunc(modules, func(a, b string) int { return c.used(b).Compare(c.used(a)) })
	for n, module := range modules {
		if n >= keptModules-1 {
			c.remove(module + listSuffix) // and its files, listed nowhere then, by the next one who looks
		}
	}
}

const listSuffix = ".sha256"

func (c *compiledModules) listFile(digest string) string {
	return filepath.Join(c.dir, digest+listSuffix)
}

// lists are the SHA-256 of files by path, by module.
func (c *compiledModules) lists() (map[string]map[string]string, error) {
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

// files are the paths, in the directory, of what the library keeps: in a
// directory for each of its versions.
func (c *compiledModules) files() (paths []string) {
	all, _ := afero.Glob(c.fs, filepath.Join(c.dir, "wazero-*", "*"))
	for _, path := range all {
		if short, err := filepath.Rel(c.dir, path); err == nil {
			paths = append(paths, short)
		}
	}
	return paths
}

// sum returns "" for a file that cannot be read.
func (c *compiledModules) sum(path string) string {
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

func (c *compiledModules) used(module string) time.Time {
	info, err := c.fs.Stat(c.listFile(module))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (c *compiledModules) older(path string, age time.Duration) bool {
	info, err := c.fs.Stat(filepath.Join(c.dir, path))
	return err == nil && c.now().Sub(info.ModTime()) > age
}

func (c *compiledModules) remove(path string) {
	if err := c.fs.Remove(filepath.Join(c.dir, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("the cache of compiled modules cannot be cleaned", "error", err.Error())
	}
}

// defaultModuleCache is where compiled modules go if nobody says: the user's
// own cache, or nowhere if it has none.
func defaultModuleCache(getenv func(string) (string, bool)) string {
	if dir, _ := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "verge", "modules")
	}
	if home, _ := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "verge", "modules")
	}
	return ""
}
