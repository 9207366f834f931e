package modules

import (
	"crypto/ed25519"
	"errors"
	"fmt"
)

// Trust defines which modules may run. Its zero value trusts all modules. Then only the file's permissions
// and the operator token protect the server.
type Trust struct {
	SHA256     string            // of the only module that may run, in hex; "": any
	Key        ed25519.PublicKey // must have signed the module; nil: no signature is needed
	Pinned     bool              // SHA256 or Key must be set
	MinVersion int64             // the lowest version that may run; 0: any, or none
}

// Check rejects a module that is not trusted. The version is the signature's, if Check has verified one, and
// otherwise 0.
func (t Trust) Check(m Module) (version int64, err error) {
	digest, s := m.Digest, m.Signature
	switch {
	case t.SHA256 != "" && t.SHA256 != digest:
		return 0, fmt.Errorf("its SHA-256 is %s, but module_sha256 pins %s", digest, t.SHA256)
	case t.Key != nil && s == nil:
		return 0, fmt.Errorf("it is not signed, but module_key pins the key %s: "+
			"`verge module sign` makes the signature", FormatPublicKey(t.Key))
	case t.Key != nil && !ed25519.Verify(t.Key, signedText(digest, s.Version), s.bytes):
		return 0, fmt.Errorf("the key of module_key, %s, did not sign "+
			"these bytes (SHA-256 %s)", FormatPublicKey(t.Key), digest)
	case t.Key != nil && s.Version < t.MinVersion:
		return 0, fmt.Errorf("its signature says %s, but module_min_version is %d",
			VersionText(s.Version), t.MinVersion)
	case t.Pinned && t.SHA256 == "" && t.Key == nil:
		return 0, errors.New("nothing says that it may run: " +
			"pin its SHA-256 with module_sha256, or with module_key the key that signs it")
	case t.Key != nil:
		return s.Version, nil
	}
	return 0, nil
}
