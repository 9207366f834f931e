package config

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/certs"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/pemfile"
)

// ownCertificates are the settings of methods with a certificate of this service. Certificates of others,
// such as trust anchors, expire without a fault of this service.
var ownCertificates = []string{"certificate", "reader_certificate"}

// methodExpiries records the expiry of a method's own certificates. A file that has none is a problem that
// the kind reports.
func (pl *Plan) methodExpiries(about string, m method.Config) {
	var settings map[string]any
	if len(m.Settings) == 0 || json.Unmarshal(m.Settings, &settings) != nil {
		return
	}
	for _, name := range ownCertificates {
		text, _ := settings[name].(string)
		if chain, err := pemfile.Certificates([]byte(text)); text != "" && err == nil {
			pl.expires(about+"."+m.Kind+"."+name+"_file", chain...)
		}
	}
	pl.methodAnchors(about+"."+m.Kind+".trust_anchors", settings)
}

// methodAnchors records the trust anchors of a method without trusted lists.
func (pl *Plan) methodAnchors(setting string, settings map[string]any) {
	files, _ := settings["trust_anchors"].([]any)
	if settings["trust_lists"] != nil {
		return
	}
	for _, file := range files {
		text, _ := file.(string)
		all, err := pemfile.Certificates([]byte(text))
		if err != nil {
			return // the kind reports it
		}
		if pl.anchors == nil {
			pl.anchors = map[string][]*x509.Certificate{}
		}
		pl.anchors[setting] = append(pl.anchors[setting], all...)
	}
}

// expires records the earliest expiry of a chain.
func (pl *Plan) expires(setting string, chain ...*x509.Certificate) {
	for _, c := range chain {
		if c == nil {
			continue
		}
		if pl.begins == nil {
			pl.begins = map[string]time.Time{}
		}
		if c.NotBefore.After(pl.begins[setting]) {
			pl.begins[setting] = c.NotBefore
		}
		if known, ok := pl.Expiries[setting]; ok && !c.NotAfter.Before(known) {
			continue
		}
		if pl.Expiries == nil {
			pl.Expiries = map[string]time.Time{}
		}
		pl.Expiries[setting] = c.NotAfter
	}
}

// ExpiryWarnings returns a warning for each certificate that has expired at the time now, expires soon or is
// not valid yet, and for each method without a valid trust anchor.
func (pl *Plan) ExpiryWarnings(now time.Time) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, setting := range slices.Sorted(maps.Keys(pl.Expiries)) {
		expires := pl.Expiries[setting]
		switch begins := pl.begins[setting]; {
		case now.Before(begins):
			warn("%s: the certificate is not valid before %s: wait, use the previous certificate, or set "+
				"this machine's clock", setting, words.When(begins))
		case !now.Before(expires):
			warn("%s: the certificate expired at %s: renew it, and restart", setting, words.When(expires))
		case expires.Sub(now) < certs.ExpiresSoon:
			warn("%s: the certificate expires at %s: renew it, and restart", setting, words.When(expires))
		}
	}
	for _, setting := range slices.Sorted(maps.Keys(pl.anchors)) {
		isValid := func(c *x509.Certificate) bool {
			return !now.Before(c.NotBefore) && !now.After(c.NotAfter)
		}
		if !slices.ContainsFunc(pl.anchors[setting], isValid) {
			warn("%s: no certificate is valid now, so no document counts: get the issuers' new ones, "+
				"and restart", setting)
		}
	}
	return all
}
