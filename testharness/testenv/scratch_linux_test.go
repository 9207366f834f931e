package testenv

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A killed process cannot clean up. The next process removes its files, ends its child processes, and does
// not touch the files of a running process.
func TestScratch_KilledProcess(t *testing.T) {
	const inPlace = "VERGE_SCRATCH_CHILD"
	if place := os.Getenv(inPlace); place != "" {
		leave(t, place)
		return
	}
	place := t.TempDir()
	mine, remove, err := scratchIn(place, "mine")
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.MkdirTemp(place, "verge-made-") // by a process that does not hold it yet
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	process.Env = append(os.Environ(), inPlace+"="+place)
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	theirs, pid, _ := strings.Cut(strings.TrimSpace(said), " ")
	server := "/proc/" + pid + "/cwd/." // a process that has ended has none
	if err != nil || !there(theirs) || !there(server) {
		process.Process.Kill()
		t.Fatalf("the process says %q, %v", said, err)
	}
	sweep(place)
	if !there(theirs) || !there(server) {
		t.Error("something of a process that lives was removed or ended")
	}
	process.Process.Kill()
	process.Wait()
	if !there(theirs) || !there(server) {
		t.Fatal("the process has left nothing, so this test shows nothing")
	}
	sweep(place)
	if there(theirs) || there(server) {
		t.Error("something is left of a process that was killed")
	}
	if !there(mine) || !there(made) {
		t.Error("a new directory was removed")
	}
	if remove(); there(mine) {
		t.Error("a directory was not removed by who has made it")
	}
}

// leave creates a directory, starts a process in it, prints it, and waits to be killed.
func leave(t *testing.T, place string) {
	dir, _, err := scratchIn(place, "theirs")
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command("sleep", "60")
	server.Dir = dir
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Println(dir, server.Process.Pid)
	time.Sleep(time.Minute)
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
