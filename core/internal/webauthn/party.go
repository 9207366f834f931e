package webauthn

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/weburl"
)

// RelyingParty is the site that passkeys are for. Create it with NewRelyingParty. A zero RelyingParty rejects
// every response.
type RelyingParty struct {
	id      string
	name    string
	origins []string
	hash    [sha256.Size]byte // of the id; all authenticator data starts with it
}

// NewRelyingParty checks the operator's configuration.
//
// The id is a host name, without scheme and port. Passkeys belong to it permanently: with another id, none of
// them can be used. The name is shown to users. origins are the origins of the pages that use passkeys, as
// browsers write them: https, a host that is the id or ends in a dot and the id, and a port if it is not 443.
// On localhost, http is allowed.
func NewRelyingParty(id, name string, origins ...string) (RelyingParty, error) {
	if !isHostName(id) {
		return RelyingParty{}, fmt.Errorf("passkeys need the name of a host in lower case, such as "+
			"verify.example or localhost, but %q is none; browsers offer no passkey at an IP address", id)
	}
	if name == "" || len(origins) == 0 {
		return RelyingParty{}, fmt.Errorf("passkeys of %s need a name to show and at least one origin", id)
	}
	for _, origin := range origins {
		if !isOriginOf(origin, id) {
			return RelyingParty{}, fmt.Errorf("passkeys of %s do not work at %q; an origin is https://%s, "+
				"or a host below it, with a port if it is not 443, and nothing behind it", id, origin, id)
		}
	}
	return RelyingParty{id, name, slices.Clone(origins), sha256.Sum256([]byte(id))}, nil
}

// isHostName returns false for an IPv4 address, since its last label is a number.
func isHostName(s string) bool {
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return len(s) <= 253 && strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

func isOriginOf(origin, id string) bool {
	local := id == "localhost" || strings.HasSuffix(id, ".localhost")
	u, err := url.Parse(origin)
	if err != nil || !weburl.IsOrigin(origin, local) || !isHostName(u.Hostname()) {
		return false
	}
	return u.Hostname() == id || strings.HasSuffix(u.Hostname(), "."+id)
}
