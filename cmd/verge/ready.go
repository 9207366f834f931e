package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/afero"
)

// readyFile is what `verge dev` tells other programs once it serves: its
// --ready-file and, for the operators' commands, ready.json in its data
// directory. It is there exactly as long as requests are accepted, but for a
// process that was killed: PID says whose it is.
type readyFile struct {
	BaseURL string `json:"base_url"`
	DemoURL string `json:"demo_url"`

	// ConsoleURL is the operators' way in. There is no console in this
	// release, so it is where the operators' API listens: the same as AdminURL.
	ConsoleURL string `json:"console_url"`
	AdminURL   string `json:"admin_url"`
	OpsURL     string `json:"ops_url"` // /metrics, /healthz, /readyz

	seeds

	WebhookURL string `json:"webhook_url"`
	Engine     string `json:"engine"`
	KV         string `json:"kv"`
	PID        int    `json:"pid"`
}

func (r readyFile) write(fsys afero.Fs, path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writePrivate(fsys, path, append(b, '\n'))
}

func readReady(fsys afero.Fs, path string) (readyFile, error) {
	var r readyFile
	b, err := readPrivate(fsys, path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s is not a ready file of `verge dev`: %w", path, err)
	}
	return r, nil
}
