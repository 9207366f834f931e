package modules

import (
	"crypto/ed25519"
	"errors"
	"fmt"
)

// Trust says which modules may run. Its zero value trusts all of them: then the
// file's permissions and the operator token keep others out.
type Trust struct {
	SHA256     string            // of the only one, in hex; "": any
	Key        ed25519.PublicKey // that must have signed it; nil: none
	Pinned     bool              // SHA256 or Key must be given
	MinVersion int64             // the least that its signature may say; 0: any, also one that says none
}

// Check refuses a module that is not trusted. The version is the one in a
// signature that was checked, 0 if none was.
func (t Trust) Check(m Module) (version int64, err error) {
	digest, s := m.Digest, m.Signature
	switch {
	case t.SHA256 != "" && t.SHA256 != digest:
		return 0, fmt.Errorf("its SHA-256 is %s, but module_sha256 pins %s", digest, t.SHA256)
	case t.Key != nil && s == nil:
		return 0, fmt.Errorf("it is not signed, but module_key pins the key %s: "+
			"`verge module sign` makes the signature", FormatPublicKey(t.Key))
	case t.Key != nil && !ed25519.Verify(t.Key, signedText(digest, s.Version), s.bytes):
		return 0, fmt.Errorf("its signature is not one that the key of module_key, %s, has made "+
			"of these bytes (SHA-256 %s)", FormatPublicKey(t.Key), digest)
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
