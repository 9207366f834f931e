package config

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

const (
	// keyringEach is the interval at which a server runs keyring_command. A program may ask a vault, which
	// costs more than to read a file. If the ring lacks a key, the server runs it earlier.
	keyringEach = time.Minute

	keyringTime  = 10 * time.Second // the maximum duration of keyring_command
	keyringBytes = 256 << 10        // the maximum size of its output; a ring of ten keys has 2 KiB
)

// checkKeyringCommand runs the program that prints the key ring.
func (c *File) checkKeyringCommand(sys *System, pl *Plan, ps *problems) {
	argv := c.KeyringCommand
	switch {
	case c.Keyring != "":
		ps.add(
			"keyring and keyring_command are both set (VERGE_KEYRING and --keyring set keyring); choose one")
		return
	case !filepath.IsAbs(argv[0]):
		ps.add("keyring_command: %q is not the whole path of a program, such as \"/usr/bin/sops\"", argv[0])
		return
	case sys.Output == nil:
		ps.add("keyring_command: this program runs no others")
		return
	}
	run := func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), keyringTime)
		defer cancel()
		b, err := sys.Output(ctx, argv, keyringBytes)
		if ctx.Err() != nil {
			err = errors.New("it did not end within 10 seconds")
		}
		if err != nil {
			return nil, errors.New(argv[0] + ": " + err.Error() +
				"; run it as Verge's user to see its messages, which Verge does not log")
		}
		return b, nil
	}
	b, err := run()
	pl.KeyringAway = err != nil
	ring, err := parseKeyring(b, argv[0], err)
	if err != nil {
		ps.add("keyring_command: %v", err)
		return
	}
	pl.Keyring, pl.KeyringFile, pl.KeyringEach = ring, run, keyringEach
}
