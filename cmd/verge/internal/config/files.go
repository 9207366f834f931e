package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/secret"
)

// WritePrivate writes b to path atomically: a reader gets the old file or the new one. Only the owner can
// read a new file. A replaced file keeps its owner, group and mode, up to 0640, because a server of another
// user must still be able to read it. A symbolic link stays one, and its file is replaced: the server may
// read that file by its own path. A link to a missing file is an error.
func WritePrivate(fsys afero.Fs, path string, b []byte) (err error) {
	if _, onDisk := fsys.(*afero.OsFs); onDisk {
		file, err := filepath.EvalSymlinks(path)
		if err == nil {
			path = file
		} else if link, none := os.Readlink(path); none == nil {
			return fmt.Errorf("%s is a symbolic link to %s, which does not exist; remove the link, or give "+
				"the path of the file: %w", path, link, err)
		}
	}
	old, err := fsys.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	exists := err == nil
	f, err := afero.TempFile(fsys, filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("writing %s: %w; run the command as root or as the owner of the directory", path,
			err)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, WithAdvice(err))
	}
	defer func() {
		if err != nil {
			fsys.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	err = WithAdvice(err)
	if err == nil && exists {
		err = sameAccess(fsys, f, old)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := fsys.Rename(f.Name(), path); err != nil {
		return err
	}
	if err := syncDir(fsys, filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s was written, but a power failure may undo this: %w; run `sync`", path, err)
	}
	return nil
}

// owner is the user and the group of a file, zero if the system or the file system has none.
type owner struct{ uid, gid int }

// sameAccess gives a new file the owner, group and mode of the file that it replaces. The mode never exceeds
// 0640.
func sameAccess(fsys afero.Fs, f afero.File, old fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if want := ownerOf(old); want != ownerOf(info) {
		if err := fsys.Chown(f.Name(), want.uid, want.gid); err != nil {
			return fmt.Errorf("the new file cannot get the owner and the group of the old one, which was "+
				"not changed: %w; run the command as root or as the file's owner", err)
		}
	}
	return fsys.Chmod(f.Name(), old.Mode().Perm()&0o640)
}

func syncDir(fsys afero.Fs, dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync a directory
	}
	d, err := fsys.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadPrivate reads a file with a secret. It rejects a file that other users can read: they may know the
// secret, so it must be replaced.
func ReadPrivate(fsys afero.Fs, path string) ([]byte, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY|nonblock, 0) // to open a pipe would wait for its writer
	if errors.Is(err, fs.ErrPermission) {
		if dir := closedDir(fsys, path); dir != "" {
			return nil, fmt.Errorf("%w: the user that verge runs as cannot enter %s; "+
				"for a user of the group verge, run `chown root:verge %s && chmod 750 %s`",
				err, dir, dir, dir)
		}
		return nil, fmt.Errorf("%w: the user that verge runs as must be able to read it; "+
			"for a user of the group verge, run `chown root:verge %s && chmod 640 %s`", err, path, path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	if tooOpen(info.Mode(), ownedByRoot(info), inSecretMount(f)) {
		return nil, fmt.Errorf("%s can be read by others (mode %04o): run `chmod 600 %s`, or, to "+
			"let a group read it, make root the owner, with mode 640; and replace the secret if others could",
			path, info.Mode().Perm(), path)
	}
	if info.Mode()&fs.ModeNamedPipe != 0 {
		return readPipe(f, time.Now().Add(pipeTime))
	}
	return io.ReadAll(f)
}

// pipeTime is the time that a pipe without a writer gets. The writer of a FIFO may open it after its reader.
const pipeTime = time.Second

// readPipe reads a pipe, such as a process substitution of a shell. If nothing was written until then, and
// the pipe has no writer, it returns an error.
func readPipe(f afero.File, until time.Time) ([]byte, error) {
	for {
		b, err := io.ReadAll(f)
		switch {
		case len(b) > 0 || err != nil:
			return b, err
		case !time.Now().Before(until):
			return nil, fmt.Errorf("%s is a pipe that nothing writes to; give a file", f.Name())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// closedDir returns the directory of path that this process cannot enter, or "".
func closedDir(fsys afero.Fs, path string) (closed string) {
	for dir := path; ; dir = filepath.Dir(dir) {
		if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrPermission) || dir == filepath.Dir(dir) {
			return closed
		}
		closed = filepath.Dir(dir)
	}
}

// tooOpen is the rule for files with secrets. The owner may read such a file. Others may read it in two
// cases:
//
//   - Its group may, if root owns the file. Only an administrator can have arranged that.
//   - All users may, if the file is in a mount that a container platform has created for secrets. Only this
//     container sees the mount. Docker gives such files mode 0444, and Kubernetes 0644.
//
// Only the owner may write to it.
func tooOpen(mode fs.FileMode, byRoot, secretMount bool) bool {
	switch open := mode.Perm() & 0o077; {
	case open == 0:
		return false
	case secretMount:
		return open&^0o044 != 0
	case byRoot:
		return open&^0o040 != 0
	}
	return true
}

// isSecretMount reports whether a container platform has created a mount for secrets. path is the path of the
// file, without symbolic links. inMemory and readOnly describe the mount:
//
//   - Kubernetes mounts secrets at any path, in memory and read-only.
//   - Docker and Podman mount them below /run/secrets, in memory or read-only.
//
// A directory in memory that all users can write to, such as /dev/shm, is not such a mount.
func isSecretMount(path string, inMemory, readOnly bool) bool {
	if strings.HasPrefix(path, "/run/secrets/") {
		return inMemory || readOnly
	}
	return inMemory && readOnly
}

// credentials is the variable in which systemd sets the directory of a service's credentials.
const credentials = "CREDENTIALS_DIRECTORY"

// Locate returns the path of a setting's file. A bare name is one of systemd's credentials, if it exists.
func (sys *System) Locate(name string) string {
	dir, _ := sys.Getenv(credentials)
	if dir == "" || name != filepath.Base(name) {
		return name
	}
	credential := filepath.Join(dir, name)
	if _, err := sys.FS.Stat(credential); errors.Is(err, fs.ErrNotExist) {
		return name
	}
	return credential
}

// errInline does not repeat the value, which is a secret.
var errInline = errors.New("the value is the secret itself; save it in a file, and set the file's name")

// ReadSecretFile reads the secret in the file of a setting.
func (sys *System) ReadSecretFile(name string) ([]byte, error) {
	if isInline(name) {
		return nil, errInline
	}
	return ReadPrivate(sys.FS, sys.Locate(name))
}

// secretFrom returns the secret in the file of a setting.
func (sys *System) secretFrom(name string) (string, error) {
	b, err := sys.ReadSecretFile(name)
	if err != nil {
		return "", err
	}
	value, why := secret.Read(string(b))
	if why != "" {
		return "", fmt.Errorf("%s: %s", sys.Locate(name), why)
	}
	return value, nil
}

// SecretIn returns the secret in an environment variable. isSet is false if the variable is not set or empty.
func (sys *System) SecretIn(variable string) (value string, isSet bool, err error) {
	text, ok := sys.Getenv(variable)
	if !ok || text == "" {
		return "", false, nil
	}
	value, why := secret.Read(text)
	if why != "" {
		return "", true, errors.New(why)
	}
	return value, true, nil
}

// SecretFile is a flag with the name of a file with a secret. Its environment variable may have the secret
// itself, and a bare name may be a credential of systemd, so neither is changed to an absolute path.
type SecretFile string

// Decode reads the value of the flag.
func (s *SecretFile) Decode(c *kong.DecodeContext) error {
	var word string
	if err := c.Scan.PopValueInto("file", &word); err != nil {
		return err
	}
	if !isInline(word) && word != filepath.Base(word) {
		word = kong.ExpandPath(word)
	}
	*s = SecretFile(word)
	return nil
}

// isInline reports whether the value of a setting is the secret itself, not the name of a file.
func isInline(value string) bool {
	value = strings.TrimSpace(strings.TrimPrefix(value, "\ufeff"))
	return strings.HasPrefix(value, "{") || strings.HasPrefix(value, "-----BEGIN ") ||
		strings.ContainsAny(value, "\r\n")
}

// readFileOr reads a secret from the file value. If value is the secret itself, it must come from that
// environment variable. name is for messages, and never contains the secret.
func (sys *System) readFileOr(variable, value string) (b []byte, name string, err error) {
	if !isInline(value) {
		name = sys.Locate(value)
		b, err = ReadPrivate(sys.FS, name)
		return b, name, err
	}
	if held, _ := sys.Getenv(variable); held != value {
		return nil, variable, fmt.Errorf("do not write a secret into a flag or the "+
			"configuration: give the name of a file, or set %s to the secret", variable)
	}
	return []byte(value), variable, nil
}

// writable tries to write into dir. If dir does not exist, it tries the nearest parent directory that exists,
// because the store creates missing directories.
func writable(fsys afero.Fs, dir string) error {
	for {
		info, err := fsys.Stat(dir)
		if err == nil && !info.IsDir() {
			return errors.New("it is not a directory")
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return err
		}
		dir = filepath.Dir(dir)
	}
	return CheckWritable(fsys, dir)
}

// CheckWritable returns an error if no file can be created in dir.
func CheckWritable(fsys afero.Fs, dir string) error {
	f, err := afero.TempFile(fsys, dir, ".verge-check-*")
	if err != nil {
		return WithAdvice(err)
	}
	return errors.Join(f.Close(), fsys.Remove(f.Name()))
}

// WithAdvice adds the fix to an error about a directory that cannot be written.
func WithAdvice(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w; mount a volume there, choose a directory on one, or let the systemd unit "+
			"write to it (ReadWritePaths=)", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; free some space, or choose a directory on another disk", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; make the user that verge runs as its owner", err)
	}
	return err
}
