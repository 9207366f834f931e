package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// outputOf is config.System's Output. The program gets no input, and its messages are discarded: they may
// have a part of its output. When ctx is done, it is killed with the processes that it started.
func outputOf(ctx context.Context, argv []string, limit int) ([]byte, error) {
	held := &capped{limit: limit}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "VERGE_") })
	cmd.Stdout = held
	cmd.WaitDelay = time.Second // a process of another group may hold the pipe open
	killGroup(cmd)
	switch err := cmd.Run(); {
	case held.full:
		return nil, fmt.Errorf("it printed more than %d bytes", limit)
	case errors.Is(err, exec.ErrWaitDelay):
		return nil, errors.New("it ended, and a process that it started did not")
	case err != nil:
		return nil, err // such as "exit status 2": it has no output of the program
	}
	return held.content, nil
}

// capped keeps the bytes that are written to it, and fails if there are too many.
type capped struct {
	content []byte
	limit   int
	full    bool
}

var errFull = errors.New("too much output")

func (c *capped) Write(b []byte) (int, error) {
	if c.full = c.full || len(c.content)+len(b) > c.limit; c.full {
		return 0, errFull
	}
	c.content = append(c.content, b...)
	return len(b), nil
}
