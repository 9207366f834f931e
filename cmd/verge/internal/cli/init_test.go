package cli

import (
	"os"
	"testing"

	"github.com/spf13/afero"
)

// masked is a file system with the umask 077.
type masked struct{ afero.Fs }

func (m masked) Mkdir(name string, mode os.FileMode) error { return m.Fs.Mkdir(name, mode&0o700) }

func TestMakeDir_Umask(t *testing.T) {
	fsys := masked{afero.NewMemMapFs()}
	if err := fsys.MkdirAll("/srv", 0o711); err != nil {
		t.Fatal(err)
	}
	if err := makeDir(fsys, "/srv/verge/data", 0o770); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]os.FileMode{
		"/srv": 0o711, "/srv/verge": 0o755, "/srv/verge/data": 0o770,
	} {
		if info, err := fsys.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %o", dir, info.Mode(), err, want)
		}
	}
}
