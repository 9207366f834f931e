package npmwallet

import (
	"bytes"
	"crypto/ecdsa"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wallettest"
)

// modules are packages that .ci/install puts into one directory.
type modules struct{ dir, one string }

var (
	walletModules = modules{"/usr/local/lib/wallet/node_modules", "@sd-jwt/sd-jwt-vc"}
	listModules   = modules{"/usr/local/lib/lote/node_modules", "@owf/eudi-lote"}
	credoModules  = modules{"/usr/local/lib/credo/node_modules", "@credo-ts/openid4vc"}
	statusModules = modules{"/usr/local/lib/statuslist/node_modules", "@owf/token-status-list"}
)

//go:embed scripts
var scripts embed.FS

// run runs a script with an input in JSON, and reads its output. A script that fails ends the test.
func run(t testing.TB, script string, in, out any) {
	t.Helper()
	walletModules.run(t, script, in, out)
}

func (m modules) run(t testing.TB, script string, in, out any) {
	t.Helper()
	cmd := m.command(t, script)
	input, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = bytes.NewReader(input)
	var said, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &failed
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd.Args[1], err, failed.Bytes())
	}
	if err := json.Unmarshal(said.Bytes(), out); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", cmd.Args[1], err, said.Bytes(), failed.Bytes())
	}
}

// command returns a command that runs a script. Node looks for packages next to the script, so the scripts
// are copied to a directory with a link to them.
func (m modules) command(t testing.TB, script string) *exec.Cmd {
	t.Helper()
	node := testenv.Program(t, "node", "nodejs")
	testenv.File(t, filepath.Join(m.dir, m.one, "package.json"))
	dir := t.TempDir()
	if err := os.CopyFS(dir, scripts); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(m.dir, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), node, filepath.Join(dir, "scripts", script))
}

// Document is the data that a library issues, and then presents.
type Document struct {
	DocType, Namespace string
	Claims             map[string]any
	SDJWTClaims        map[string]any // if the wallet holds the document in the format dc+sd-jwt
	Ask                []string       // the names of elements
	Transcript         []byte
	Chain              [][]byte // of the issuer
	IssuerKey          *ecdsa.PrivateKey
	DeviceKey          *ecdsa.PrivateKey
	Signed, ValidUntil time.Time
	Now                time.Time // of a presentation in that format
	Audience, Nonce    string    // of its key binding
}

// Respond has @auth0/mdl issue a document and answer with it. It returns the DeviceResponse.
func (d Document) Respond(t testing.TB) []byte {
	t.Helper()
	var chain []string
	for _, der := range d.Chain {
		chain = append(chain, hex.EncodeToString(der))
	}
	var out struct{ Response string }
	run(t, "respond-auth0.mjs", map[string]any{
		"docType": d.DocType, "namespace": d.Namespace, "claims": d.Claims, "ask": d.Ask,
		"transcript": hex.EncodeToString(d.Transcript), "chain": chain,
		"issuerKey": jwk(t, d.IssuerKey), "deviceKey": jwk(t, d.DeviceKey),
		"signed": d.Signed.Format(time.RFC3339), "validUntil": d.ValidUntil.Format(time.RFC3339),
	}, &out)
	response, err := hex.DecodeString(out.Response)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// statusLists is a status list, as @owf/token-status-list and @sd-jwt/jwt-status-list issue it, and the
// statuses that they read in our list.
type statusLists struct {
	OWFJWT, SDJWT string
	OWFCWT        string  // in hex
	Read          [][]int // the statuses in our JWT, by both, and in our CWT
}

// Status has the libraries issue a list with these statuses, and read ours with as many.
func Status(t testing.TB, ours wallettest.StatusList, statuses []int) (lists statusLists) {
	t.Helper()
	statusModules.run(t, "status-list.mjs", map[string]any{
		"uri": ours.URI, "bits": ours.Bits, "statuses": statuses, "issued": ours.Issued.Unix(),
		"expires": ours.Expires.Unix(), "ttl": int(ours.TTL.Seconds()), "key": jwk(t, ours.Key),
		"chain": ours.Chain, "jwt": string(ours.JWT()), "cwt": hex.EncodeToString(ours.CWT()),
	}, &lists)
	return lists
}

// person returns the input of scripts that issue a document.
func (d Document) person(t testing.TB) map[string]any {
	t.Helper()
	var chain []string
	for _, der := range d.Chain {
		chain = append(chain, hex.EncodeToString(der))
	}
	return map[string]any{
		"claims": d.Claims, "sdJWTClaims": d.SDJWTClaims, "chain": chain,
		"issuerKey": jwk(t, d.IssuerKey), "deviceKey": jwk(t, d.DeviceKey),
		"signed": d.Signed.Format(time.RFC3339), "validUntil": d.ValidUntil.Format(time.RFC3339),
		"now": d.Now.Unix(),
	}
}

// jwk writes a private key.
func jwk(t testing.TB, key *ecdsa.PrivateKey) map[string]string {
	t.Helper()
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	private, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	middle := 1 + len(point)/2
	return map[string]string{
		"kty": "EC", "crv": key.Curve.Params().Name, "x": encode(point[1:middle]),
		"y": encode(point[middle:]),
		"d": encode(private),
	}
}
