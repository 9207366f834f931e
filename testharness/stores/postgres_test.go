package stores

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A server that ends with its test leaves behind no shared memory. The system has room for some thousands of
// such pieces, and each run of the tests starts dozens of servers.
func TestPostgresLeavesNoSharedMemory(t *testing.T) {
	var id string // of its piece of System V
	t.Run("a server", func(t *testing.T) {
		p := StartPostgres(t)
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.cmd.Process.Pid))
		if err != nil {
			t.Skip("SKIP: no /proc with the memory of a process")
		}
		if strings.Contains(string(maps), "/dev/shm/PostgreSQL.") {
			t.Error("kill -9 would leave a file of its memory in /dev/shm")
		}
		said, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(said), "\n")
		if len(lines) < 7 || len(strings.Fields(lines[6])) != 2 {
			t.Fatalf("postmaster.pid does not name its shared memory: %q", said)
		}
		id = strings.Fields(lines[6])[1]
		if !pieces(t, id) {
			t.Errorf("the system does not list the shared memory %s of a server that runs", id)
		}
	})
	if id != "" && pieces(t, id) {
		t.Errorf("the server has ended, and its shared memory %s is still there", id)
	}
}

// pieces reports whether there is shared memory of System V with that id.
func pieces(t *testing.T, id string) bool {
	t.Helper()
	all, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^ *\S+ +` + id + ` `).Match(all)
}
