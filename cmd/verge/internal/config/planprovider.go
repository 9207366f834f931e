package config

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/verge-id/verge/core"
)

// serviceKeys returns the private keys of the OpenID provider and of reports, by their names at the host.
func (c *File) serviceKeys(sys *System) map[string]keyFile {
	keys := map[string]keyFile{}
	for n, path := range c.OIDCProvider.PrivateKeyFiles {
		// The same file may be listed twice, which the core rejects.
		setting := fmt.Sprintf("oidc_provider.private_key_files, number %d", n+1)
		keys[core.ProviderKeyName(n+1)] = keyFile{path, setting,
			func() ([]byte, error) { return sys.ReadSecretFile(path) }}
	}
	if path := c.Report.PrivateKeyFile; path != "" {
		keys[core.ReportKeyName] = keyFile{path, "report.private_key_file",
			func() ([]byte, error) { return sys.ReadSecretFile(path) }}
	}
	return keys
}

// checkProvider sets the public keys of the OpenID provider. A key of another type than P-256 is a problem.
func (c *File) checkProvider(pl *Plan, ps *problems) {
	for n := range c.OIDCProvider.PrivateKeyFiles {
		public, err := pl.publicKey(core.ProviderKeyName(n + 1))
		if err != nil {
			ps.add("oidc_provider.private_key_files, number %d: ID tokens need ES256: %v", n+1, err)
			continue
		}
		pl.Core.ProviderKeys = append(pl.Core.ProviderKeys, public)
	}
}

// publicKey returns the public key of a private key that signs with ES256.
func (pl *Plan) publicKey(name string) (string, error) {
	spki, err := pl.Signer.Public(name)
	if err == nil {
		_, err = pl.Signer.Sign(context.Background(), name, "ES256", nil)
	}
	return base64.StdEncoding.EncodeToString(spki), err
}

// checkReport sets the public key of reports.
func (c *File) checkReport(pl *Plan, ps *problems) {
	if c.Report.PrivateKeyFile == "" {
		return
	}
	public, err := pl.publicKey(core.ReportKeyName)
	if err != nil {
		ps.add("report.private_key_file: reports need ES256: %v", err)
		return
	}
	pl.Core.ReportKey = public
}

// warnOfClients warns about integrations that would be OpenID clients if the service had a provider.
func (c *File) warnOfClients(pl *Plan) {
	for _, i := range pl.Site.Integrations {
		if len(i.RedirectURIs) > 0 && !i.Archived && len(c.OIDCProvider.PrivateKeyFiles) == 0 {
			pl.warn("integration %q: it has redirect_uris, but there is no OpenID provider; set "+
				"oidc_provider.private_key_files", i.ID)
		}
	}
}
