package wallettest

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/cbor"
)

// formatZK is the format of a zero-knowledge proof about a mobile document.
const formatZK = "mso_mdoc_zk"

// zkSystem is the name of the system of proofs that the wallet knows.
const zkSystem = "longfellow-libzk-v1"

// Circuit is a circuit that a request offers for a zero-knowledge proof.
type Circuit struct {
	System       string `json:"system"`
	Hash         string `json:"circuit_hash"`
	Version      int    `json:"version"`
	Elements     int    `json:"num_attributes"`
	BlockEncHash int    `json:"block_enc_hash"`
	BlockEncSig  int    `json:"block_enc_sig"`
}

// Label returns the id that Multipaz has for the circuit: the name of the system and of the circuit's file.
func (c Circuit) Label() string {
	return fmt.Sprintf("%s_%d_%d_%d_%d_%s",
		c.System, c.Version, c.Elements, c.BlockEncHash, c.BlockEncSig, c.Hash)
}

// ProofTask is the task of a prover: the response with the document, and the statement about it.
type ProofTask struct {
	Circuit    string // its hash
	Response   []byte // DeviceResponse, signed for the session
	Issuer     *ecdsa.PublicKey
	Transcript []byte // CBOR
	Namespace  string
	Elements   []Element
	Time       time.Time // at which the document is valid
}

// ZKResponse is the content of a response with a zero-knowledge proof. A test can change it before it is
// written.
type ZKResponse struct {
	DocType   string
	Circuit   string // zkSystemId
	Namespace string
	Elements  []Element
	Time      time.Time
	Chain     [][]byte
	Proof     []byte
}

// prove returns a DeviceResponse with a proof about the document of a presentation. Wallets round the time to
// the end of the day, and so does this one.
func (w *Wallet) prove(p *Presentation, response []byte, offered []Circuit) ([]byte, error) {
	z := ZKResponse{DocType: p.DocType, Namespace: p.Namespace, Elements: p.Elements, Chain: p.Issuer.Chain,
		Time: w.now().UTC().Truncate(24 * time.Hour).Add(24*time.Hour - time.Second)}
	at := slices.IndexFunc(
		offered,
		func(c Circuit) bool { return c.System == zkSystem && c.Elements == len(p.Elements) },
	)
	if at < 0 {
		return nil, fmt.Errorf(
			"wallettest: no circuit for %d elements is offered: %+v",
			len(p.Elements),
			offered,
		)
	}
	signer, err := x509.ParseCertificate(p.Issuer.Chain[0])
	if err != nil {
		return nil, err
	}
	z.Circuit = offered[at].Hash
	issuer, _ := signer.PublicKey.(*ecdsa.PublicKey)
	z.Proof, err = w.Prove(ProofTask{Circuit: z.Circuit, Response: response, Issuer: issuer,
		Transcript: p.Session.Transcript(), Namespace: p.Namespace, Elements: p.Elements, Time: z.Time})
	if err != nil {
		return nil, err
	}
	if w.LabelProof {
		z.Circuit = offered[at].Label()
	}
	if w.EditProof != nil {
		w.EditProof(&z)
	}
	return z.encode(), nil
}

func (z ZKResponse) encode() []byte {
	var items []cbor.Item
	for _, e := range z.Elements {
		items = append(
			items,
			cbor.Map(pair("elementIdentifier", cbor.Text(e.Name)), pair("elementValue", e.Value)),
		)
	}
	chain := cbor.Bytes(z.Chain[0])
	if len(z.Chain) > 1 {
		var all []cbor.Item
		for _, der := range z.Chain {
			all = append(all, cbor.Bytes(der))
		}
		chain = cbor.Array(all...)
	}
	data := embed(cbor.Map(pair("docType", cbor.Text(z.DocType)), pair("zkSystemId", cbor.Text(z.Circuit)),
		pair("timestamp", dateTime(z.Time)), pair("msoX5chain", chain),
		pair("issuerSigned", cbor.Map(pair(z.Namespace, cbor.Array(items...))))))
	return cbor.Map(
		pair("version", cbor.Text("1.1")),
		pair("status", cbor.Integer(0)),
		pair(
			"zkDocuments",
			cbor.Array(cbor.Map(pair("documentData", data), pair("proof", cbor.Bytes(z.Proof)))),
		),
	).Raw()
}

// zkOffered returns the circuits in the requestInfo of an ItemsRequest. required means that the wallet may
// not send the document itself.
func zkOffered(items cbor.Item) (offered []Circuit, required bool) {
	request := items.Member("requestInfo").Member("zkRequest")
	systems, _ := request.Member("systemSpecs").List()
	for _, s := range systems {
		number := func(name string) int {
			n, _ := s.Member("params").Member(name).Integer()
			return int(n)
		}
		c := Circuit{Version: number("version"), Elements: number("num_attributes"),
			BlockEncHash: number("block_enc_hash"), BlockEncSig: number("block_enc_sig")}
		c.System, _ = s.Member("system").Text()
		c.Hash, _ = s.Member("params").Member("circuit_hash").Text()
		if id, _ := s.Member("zkSystemId").Text(); id == c.Hash {
			offered = append(offered, c)
		}
	}
	required, _ = request.Member("zkRequired").Bool()
	return offered, required
}

// ExternalProver returns a Wallet.Prove that runs a program for each proof. The program reads lines of
// hexadecimal text: the path of the circuit's file in the folder, its hash, the DeviceResponse, x and y of
// the issuer's key as 0x and digits, the transcript, the namespace, the identifier and the value of the one
// element, and the time. It writes the proof. testdata/prove.cc is its source.
func ExternalProver(program, folder string) func(ProofTask) ([]byte, error) {
	return func(t ProofTask) ([]byte, error) {
		point, err := t.Issuer.Bytes()
		if err != nil {
			return nil, err
		}
		if len(t.Elements) != 1 || len(point) != 65 {
			return nil, fmt.Errorf("wallettest: the prover proves one element, by an issuer on P-256")
		}
		file := folder + "/" + t.Circuit + ".circuit.zst"
		if _, err := os.Stat(file); err != nil {
			return nil, err
		}
		e := t.Elements[0]
		var in strings.Builder
		for _, line := range [][]byte{[]byte(file), []byte(t.Circuit), t.Response,
			fmt.Appendf(nil, "0x%x", point[1:33]), fmt.Appendf(nil, "0x%x", point[33:]), t.Transcript,
			[]byte(t.Namespace), []byte(e.Name), e.Value.Raw(), []byte(t.Time.UTC().Format(time.RFC3339))} {
			in.WriteString(hex.EncodeToString(line) + "\n")
		}
		run := exec.Command(program)
		run.Stdin = strings.NewReader(in.String())
		var stderr strings.Builder
		run.Stderr = &stderr
		out, err := run.Output()
		if err != nil {
			return nil, fmt.Errorf("wallettest: the prover: %w: %s", err, stderr.String())
		}
		return out, nil
	}
}
