package cli

import (
	"cmp"
	"errors"
	"io/fs"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/config"
)

// serverFlags have the address of the admin listener. Each of the operators' commands embeds them.
type serverFlags struct {
	AdminURL  string `group:"server" placeholder:"URL" env:"VERGE_ADMIN_URL" help:"URL of the admin listener. Default: the \"verge dev\" that runs here."`
	TokenFile string `group:"server" placeholder:"FILE" env:"VERGE_OPERATOR_TOKEN_FILE" help:"File with the operator token. Or set $$VERGE_OPERATOR_TOKEN, which overrides the variable with the file."`
	ReadyFile string `group:"server" default:".verge/ready.json" type:"path" env:"VERGE_READY_FILE" help:"Ready file of the \"verge dev\" to use if no URL is given."`
}

// client returns a client for the server of the flags, or of the `verge dev` that runs here.
func (f serverFlags) client(p *program) (*adminclient.Client, error) {
	config := adminclient.Config{URL: f.AdminURL, From: "--admin-url or $VERGE_ADMIN_URL"}
	var err error
	if config.Token, err = f.token(p); err != nil {
		return nil, err
	}
	if config.URL == "" {
		ready, err := readReady(p.FS, f.ReadyFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noDev(f.ReadyFile, "--admin-url URL (VERGE_ADMIN_URL)")
		}
		if err != nil {
			return nil, usageError{err}
		}
		config.URL, config.From = ready.AdminURL, f.ReadyFile
		config.Token = cmp.Or(config.Token, ready.OperatorToken)
	}
	client, err := adminclient.New(config)
	if errors.Is(err, adminclient.ErrNoToken) {
		return nil, usagef("no operator token: set VERGE_OPERATOR_TOKEN or give --token-file")
	}
	if err != nil {
		return nil, usageError{err}
	}
	return client, nil
}

// noDev returns the error of a command that found no running `verge dev`. flag is the flag for another
// server.
func noDev(readyFile, flag string) error {
	return usagef("no server: `verge dev` does not run here (there is no %s); "+
		"change to the directory where it runs, or give --ready-file DIR/%s/%s or %s", readyFile, devData,
		statusFile, flag)
}

// token returns the operator token that was given, or "". As in a server, the token in the environment
// overrides a file that the environment names.
func (f serverFlags) token(p *program) (string, error) {
	file, _ := p.Getenv(tokenFileVariable)
	if byFlag := f.TokenFile != file; f.TokenFile != "" && byFlag {
		return p.ownSecret("--token-file", f.TokenFile)
	}
	token, isSet, err := p.SecretIn(config.OperatorTokenVariable)
	switch {
	case err != nil:
		return "", usagef("%s: %w", config.OperatorTokenVariable, err)
	case !isSet && f.TokenFile != "":
		return p.ownSecret(tokenFileVariable, f.TokenFile)
	}
	return token, nil
}

// tokenFileVariable has the default of --token-file.
const tokenFileVariable = "VERGE_OPERATOR_TOKEN_FILE"
