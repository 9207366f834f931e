package signing

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	sshagent "golang.org/x/crypto/ssh/agent"
)

// agentPrefix begins the name of a key in the agent. The fingerprint follows.
const agentPrefix = "agent:"

// agentTime bounds one exchange with the agent. A smart card takes up to a second for a signature.
const agentTime = 3 * time.Second

// agent is an SSH agent at a Unix socket. Each exchange has its own connection, so an agent that restarts, or
// that does not respond to another request, disturbs none.
type agent struct{ socket string }

var errNoAgent = errors.New(
	"there is no SSH agent: set key_agent, or SSH_AUTH_SOCK, to the path of its socket",
)

// exchange calls do with a client of the agent.
func (a *agent) exchange(ctx context.Context, do func(sshagent.ExtendedAgent) error) error {
	if a.socket == "" {
		return errNoAgent
	}
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", a.socket)
	if err != nil {
		return fmt.Errorf("the SSH agent cannot be reached: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	// Without its method Close, the client starts no goroutine.
	err = do(sshagent.NewClient(struct{ io.ReadWriter }{conn}))
	if ctx.Err() != nil {
		return fmt.Errorf("the SSH agent does not respond: %w", ctx.Err())
	}
	return err
}

// find returns the key with that fingerprint.
func (a *agent) find(fingerprint string) (key, error) {
	if !strings.HasPrefix(fingerprint, "SHA256:") {
		return key{}, errors.New(`a key of the SSH agent is named by its fingerprint: "agent:SHA256:…", ` +
			"as `ssh-add -l` prints it")
	}
	var held []*sshagent.Key
	err := a.exchange(context.Background(), func(c sshagent.ExtendedAgent) (err error) {
		held, err = c.List()
		return err
	})
	if err != nil {
		return key{}, err
	}
	for _, k := range held {
		public, err := ssh.ParsePublicKey(k.Blob)
		if err != nil || ssh.FingerprintSHA256(public) != fingerprint {
			continue
		}
		return a.fit(public)
	}
	return key{}, fmt.Errorf("the SSH agent has no such key among its %d; `ssh-add -l` lists them", len(held))
}

// fit returns the key with its algorithms. The agent hashes the message itself: for these types SSH and JWS
// have the same rules. A key of FIDO (sk-…) signs another structure, and SSH has no PS256.
func (a *agent) fit(public ssh.PublicKey) (key, error) {
	held, ok := public.(ssh.CryptoPublicKey)
	if !ok || strings.HasPrefix(public.Type(), "sk-") || strings.Contains(public.Type(), "-cert-") {
		return key{}, fmt.Errorf("the key is of the type %s, which signs no JWS; use ecdsa-sha2-nistp256",
			public.Type())
	}
	algorithms, err := algorithmsOf(held.CryptoPublicKey())
	if err != nil {
		return key{}, err
	}
	return key{public: held.CryptoPublicKey(), agent: a, algorithms: algorithms[:1]}, nil
}

var errAgentSignature = errors.New("the SSH agent returned a wrong signature")

// sign returns a signature of the agent in the form of JWS. It verifies it: a faulty one can reveal the key.
func (a *agent) sign(ctx context.Context, public crypto.PublicKey, algorithm string, message []byte) (
	[]byte, error) {
	named, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	format, flags := named.Type(), sshagent.SignatureFlags(0)
	if algorithm == "RS256" {
		format, flags = ssh.KeyAlgoRSASHA256, sshagent.SignatureFlagRsaSha256
	}
	var signed *ssh.Signature
	err = a.exchange(ctx, func(c sshagent.ExtendedAgent) (err error) {
		signed, err = c.SignWithFlags(named, message, flags)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w; it must have the key, be unlocked, and sign without a confirmation", err)
	}
	signature := signed.Blob
	if k, ok := public.(*ecdsa.PublicKey); ok {
		if signature, err = jwsOf(k, signature); err != nil {
			return nil, err
		}
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	if ok, err := Verify(ctx, algorithm, spki, message, signature); err != nil || !ok ||
		signed.Format != format {
		return nil, errors.Join(errAgentSignature, err)
	}
	return signature, nil
}

// jwsOf turns an ECDSA signature of SSH (RFC 5656, 3.1.2) into that of JWS.
func jwsOf(public *ecdsa.PublicKey, blob []byte) ([]byte, error) {
	var pair struct{ R, S *big.Int }
	size := (public.Params().BitSize + 7) / 8
	if err := ssh.Unmarshal(blob, &pair); err != nil || pair.R.Sign() < 0 || pair.S.Sign() < 0 ||
		pair.R.BitLen() > 8*size || pair.S.BitLen() > 8*size {
		return nil, errAgentSignature
	}
	signature := make([]byte, 2*size)
	pair.R.FillBytes(signature[:size])
	pair.S.FillBytes(signature[size:])
	return signature, nil
}
