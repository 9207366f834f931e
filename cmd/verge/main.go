// Command verge is the verification service in one binary: `verge dev` for a developer's machine,
// `verge serve` for a server, and the operators' commands. `verge help` explains all of them.
package main

import (
	"os"

	"github.com/verge-id/verge/cmd/verge/internal/cli"
)

func main() { os.Exit(cli.Main()) }
