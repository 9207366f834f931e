package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/estimator"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/signing"
)

// methodCommands are the commands of `verge method`.
type methodCommands struct {
	List  methodListCmd  `cmd:"" does:"listMethods" help:"List the methods of a configuration and which integrations offer them."`
	Check methodCheckCmd `cmd:"" help:"Test the connection to a method's provider, and list problems."`
	JWKS  methodJWKSCmd  `cmd:"" name:"jwks" help:"Print a method's public key as a JWK Set, to register at its provider."`
	Proof methodProofCmd `cmd:"" help:"Verify a recorded response with a zero-knowledge proof."`

	Circuits methodCircuitsCmd `cmd:"" help:"Fetch and verify the circuits of a method's zero-knowledge proofs."`

	ListFetch methodListFetchCmd `cmd:"" name:"list-fetch" help:"Fetch and verify the trusted lists of a method without storing them."`
	ListLoad  methodListLoadCmd  `cmd:"" does:"loadTrustList" name:"list-load" help:"Verify the trusted lists of a method, and load them into a Worker."`
	DIDKeys   methodDIDKeysCmd   `cmd:"" name:"did-keys" help:"Fetch and verify the log of an issuer's DID, and print its keys for issuer_keys."`

	ListShow methodListShowCmd `cmd:"" does:"listTrustLists" name:"list-show" help:"Show the trusted lists that a server has stored."`
}

type methodListCmd struct {
	JSON bool `help:"Print JSON."`
	configFlags
}

// Help is shown by `verge method list --help`.
func (methodListCmd) Help() string {
	return `Lists the methods of the configuration, which must be valid as a whole. An
integration is counted for each method that it offers.

Example:

    verge method list --config /etc/verge/verge.toml`
}

const methodHeads = "METHOD|KIND|LEVEL|INTEGRATIONS|TITLE"

// listedMethod is a method as `verge method list --json` prints it.
type listedMethod struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Level string `json:"level"`
	Title string `json:"title"` // in English

	Titles map[string]string `json:"titles,omitempty"` // by language

	Integrations []string `json:"integrations"`
}

func (c *methodListCmd) Run(p *program) error {
	pl, err := c.methodPlan(p)
	if err != nil {
		return err
	}
	all := []listedMethod{}
	for _, e := range pl.methods() {
		all = append(all, listedMethod{e.Name, e.Kind, e.Level, e.TitleIn(english), e.Titles,
			pl.offering(e.Name)})
	}
	if c.JSON {
		return printJSON(p, all)
	}
	var rows [][]string
	for _, m := range all {
		rows = append(rows, []string{m.Name, m.Kind, m.Level, strconv.Itoa(len(m.Integrations)), m.Title})
	}
	return printTable(p, methodHeads, rows)
}

// methodPlan returns the plan of the configuration. Without a plan, the error also has the address at which a
// running `verge dev` shows its methods.
func (c *configFlags) methodPlan(p *program) (plan, error) {
	if c.Config == "" && c.BaseURL == "" && c.KV == "" && c.Keyring == "" {
		dev := ""
		if ready, err := readReady(p.FS, filepath.Join(devData, statusFile)); err == nil {
			dev = "; the running `verge dev` has no such file, and shows its methods at " + ready.ConsoleURL +
				"/methods"
		}
		return plan{}, usagef("no configuration: give --config FILE or set VERGE_CONFIG%s", dev)
	}
	pl, _, err := c.plan(p)
	return pl, err
}

// methods returns the methods of a valid plan.
func (pl *plan) methods() method.Catalog {
	catalog, _ := pl.Core.Catalog()
	return catalog
}

// offering returns the ids of the integrations that offer a method.
func (pl *plan) offering(name string) []string {
	ids := []string{}
	for _, i := range pl.Site.Integrations {
		if i.Method == name || slices.Contains(i.Methods, name) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// describe names the methods in one line: bankid (oidc, L2), camera (estimator, L1).
func describe(methods method.Catalog) string {
	var all []string
	for _, e := range methods {
		all = append(all, fmt.Sprintf("%s (%s, %s)", e.Name, e.Kind, e.Level))
	}
	return strings.Join(all, ", ")
}

type methodCheckCmd struct {
	Name string `arg:"" help:"The method, as \"verge method list\" shows it."`
	JSON bool   `help:"Print JSON."`
	configFlags
}

// Help is shown by `verge method check --help`.
func (methodCheckCmd) Help() string {
	return `Sends requests to a method's provider from this machine as the server would: with
the same key, secret, certificate authority and networks. No user takes part, and no
one is verified.

For an OpenID provider, the command fetches its documents and keys, and checks
whether the provider knows this client and whether the return address is likely
registered. It compares the scopes and claims of the method with those that the
provider announces. Only a real login shows which claims it contains. An estimator
gets one request without a picture, which it may count; estimates of pictures are
not tested. Wallets cannot be asked: the command checks their trust anchors, and the
key and certificate for signed requests. Their trusted lists are fetched and
verified, but not stored, and so are the circuits of zero-knowledge proofs.

The exit code is 0 if no problem was found, 1 if there is one, and 2 if the
configuration is invalid ("verge serve --check" reports the same errors).

Example:

    verge method check bankid --config /etc/verge/verge.toml`
}

// checkedMethod is the output of `verge method check --json`.
type checkedMethod struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Level string `json:"level"`
	Good  bool   `json:"good"`
	Error string `json:"error,omitempty"` // the reason why the method cannot work now
	method.Report
}

// probes has the probe of each kind, which requests a provider's configuration. A kind without a probe cannot
// be tested. Probes are not part of method.Kind, because guests never use them.
var probes = map[string]method.Probe{
	oidc.Kind.Name:      oidc.Probe,
	estimator.Kind.Name: estimator.Probe,
	openid4vp.Kind.Name: openid4vp.Probe,
}

func (c *methodCheckCmd) Run(ctx context.Context, p *program) error {
	pl, err := c.methodPlan(p)
	if err != nil {
		return err
	}
	methods := pl.methods()
	e, ok := methods.Find(c.Name)
	if !ok {
		return usagef("there is no method %q; %s has: %s", c.Name, c.Source(),
			strings.Join(methods.Names(), ", "))
	}
	probe := probes[e.Kind]
	if probe == nil {
		return usagef("%s needs no check: methods of the kind %s use no other server", e.Name, e.Kind)
	}
	asks := method.Host{Now: pl.now, Random: pl.random, Fetch: egress.New(pl.Egress), Sign: pl.Signer.Sign,
		Verify: signing.Verify}
	report, err := probe(ctx, e.Config, asks.For(e.Name), pl.Core.BaseURL+web.ReturnPath+e.Name)
	for _, l := range e.Lists() {
		pl.checkList(ctx, p, &report, e, l)
	}
	pl.checkCircuits(ctx, p, &report, e)
	found := checkedMethod{Name: e.Name, Kind: e.Kind, Level: e.Level, Report: report,
		Good: err == nil && !slices.ContainsFunc(report.Findings,
			func(f method.Finding) bool { return !f.Good })}
	if err != nil {
		found.Error = err.Error() + pl.advice(e.Name, err)
	}
	return failUnless(found.Good, show(p, c.JSON, found, func() error { return found.print(p) }))
}

// advice returns the fix for a request of a method without a response. It returns "" for other errors.
func (pl *plan) advice(name string, err error) string {
	failed, ok := errors.AsType[*host.FetchError](err)
	if !ok {
		return ""
	}
	do := "check whether a firewall blocks the connection"
	switch failed.Reason {
	case host.FetchBlocked:
		do = pl.PublicAddress(name)
	case host.FetchTLS:
		do = pl.certificateAdvice(name, failed.Err)
	case host.FetchDNS:
		do = "check the spelling of the name in the settings"
	}
	return fmt.Sprintf(" (%s); %s", host.FetchCause(failed.Reason), do)
}

// certificateAdvice returns the fix for a TLS connection of a method that failed.
func (pl *plan) certificateAdvice(name string, err error) string {
	var invalid x509.CertificateInvalidError
	var otherHost x509.HostnameError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "check this machine's clock; if it is right, the provider has to renew its certificate"
	case errors.As(err, &otherHost):
		return "check the spelling of the host in the settings"
	case pl.TrustsNobody:
		return config.NoAuthorities
	}
	return "if a private authority signed its certificate, set the authority's file in methods." + name +
		".ca"
}

func (m checkedMethod) print(p *program) error {
	all := facts{{"method", fmt.Sprintf("%s, %s, level %s", m.Name, m.Kind, m.Level)}}
	for _, f := range m.Facts {
		all = append(all, [2]string{f.Name, f.Value})
	}
	if err := all.print(p); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout)
	wrong, warnings := 0, 0
	for _, f := range m.Findings {
		mark := "ok   "
		switch {
		case !f.Good:
			mark = "WRONG"
			wrong++
		case f.Warning:
			mark = "WARN "
			warnings++
		}
		fmt.Fprintf(p.stdout, "%s  %s\n", mark, f.Text)
	}
	for _, question := range m.Unchecked {
		fmt.Fprintf(p.stdout, "?      cannot check %s\n", question)
	}
	switch {
	case m.Error != "":
		fmt.Fprintf(p.stdout, "WRONG  %s\n\n%s cannot work now.\n", m.Error, m.Name)
	case wrong > 0:
		fmt.Fprintf(p.stdout, "\n%s has errors: see the lines with WRONG.\n", m.Name)
	case warnings > 0:
		fmt.Fprintf(p.stdout, "\n%s has no errors; read the lines with WARN.\n", m.Name)
	case len(m.Unchecked) > 0:
		fmt.Fprintf(p.stdout, "\n%s is valid, as far as this can be checked.\n", m.Name)
	default:
		fmt.Fprintf(p.stdout, "\n%s is valid.\n", m.Name)
	}
	return nil
}
