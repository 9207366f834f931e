package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
)

// readyFile has the addresses and keys of a running `verge dev` for other programs. It is written to
// --ready-file and, for the operators' commands, to ready.json in the data directory. It exists while
// requests are accepted. A killed process leaves it behind: PID is the process that wrote it.
type readyFile struct {
	BaseURL string `json:"base_url"`
	DemoURL string `json:"demo_url"`

	ConsoleURL string `json:"console_url"` // for people; OperatorToken signs in
	AdminURL   string `json:"admin_url"`   // the operators' API
	OpsURL     string `json:"ops_url"`     // /metrics, /healthz, /readyz

	seeds

	// Integrations has an integration for each method, by the method's name. The sandbox's integration is
	// IntegrationID.
	Integrations map[string]string `json:"integrations"`

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
	return config.WritePrivate(fsys, path, append(b, '\n'))
}

func readReady(fsys afero.Fs, path string) (readyFile, error) {
	var r readyFile
	b, err := config.ReadPrivate(fsys, path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s is not a ready file of `verge dev`: %w", path, err)
	}
	return r, nil
}
