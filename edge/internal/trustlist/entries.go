package trustlist

import (
	"crypto/sha256"
	"crypto/x509"
	"slices"
	"time"
)

// maxCertificate is the maximum number of bytes of a certificate.
const maxCertificate = 32 << 10

// serviceTypes are the service types of ETSI lists whose certificates may issue documents of a type. The
// specification of the list has the first one. The others appear in lists that the European Commission
// publishes for tests, or in its reference implementations.
var serviceTypes = map[string][]string{
	"eu.europa.ec.av.1": {
		"http://ec.europa.eu/tools/lotl/av/TrstSvc/Svctype/PAA",
		"http://trust.tech.ec.europa.eu/lists/age-verification/service-type/paa",
	},
	"eu.europa.ec.eudi.pid.1": {
		"http://uri.etsi.org/19602/SvcType/PID/Issuance",
		"http://uri.etsi.org/Svc/Svctype/Provider/PID",
	},
	"org.iso.18013.5.1.mDL": {
		"http://trust.ec.europa.eu/lists/mDL/SvcType/Issuance",
		"http://uri.etsi.org/19602/SvcType/mDL/Issuance",
	},
}

// granted are the statuses of a service whose certificates count. Each other status denies: withdrawn,
// deprecated, and those that a later version of a specification adds.
var granted = []string{
	"http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/granted",
	"http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/recognisedatnationallevel",
	"http://uri.etsi.org/19602/PubEAAProvidersList/SvcStatus/notified",
	"http://trust.tech.ec.europa.eu/lists/age-verification/service-status/recognized",
}

// service is a service of an ETSI list, as both formats state it.
type service struct {
	kind, status string
	statusAbsent bool // the format and the list allow this
	since        time.Time
}

// skip returns the reason why a service's certificates do not count, "" if they do.
func (s service) skip(types []string, now time.Time) Skip {
	switch {
	case !slices.Contains(types, s.kind):
		return SkipType
	case s.statusAbsent:
		return ""
	case !slices.Contains(granted, s.status) || s.since.After(now):
		return SkipStatus
	}
	return ""
}

// collector collects the entries of a list.
type collector struct {
	now     time.Time
	total   int
	entries []*x509.Certificate
	seen    map[[sha256.Size]byte]bool // certificates of entries
	denied  map[[sha256.Size]byte]bool // certificates of services that are not granted
	skipped map[Skip]int
}

func newCollector(now time.Time) *collector {
	return &collector{
		now: now, seen: map[[sha256.Size]byte]bool{}, denied: map[[sha256.Size]byte]bool{},
		skipped: map[Skip]int{},
	}
}

// add adds a certificate in DER, or counts it if skip is not empty.
func (c *collector) add(der []byte, skip Skip) *Error {
	if c.total++; c.total > maxCertificates {
		return rejected(TooLarge, "it has more than 4,096 certificates")
	}
	hash := sha256.Sum256(der)
	var certificate *x509.Certificate
	switch {
	case skip == SkipStatus:
		c.denied[hash] = true
	case skip == "" && c.seen[hash]:
		skip = SkipDuplicate
	case skip == "":
		certificate, skip = readCertificate(der)
	}
	if skip == "" && c.now.After(certificate.NotAfter) {
		skip = SkipExpired
	}
	if skip != "" {
		c.skipped[skip]++
		return nil
	}
	c.seen[hash] = true
	c.entries = append(c.entries, certificate)
	return nil
}

// finish writes the entries to a list, without certificates that any service of a wanted type has lost.
func (c *collector) finish(list *List) {
	list.Entries = slices.DeleteFunc(c.entries, func(e *x509.Certificate) bool {
		conflict := c.denied[sha256.Sum256(e.Raw)]
		if conflict {
			c.skipped[SkipConflict]++
		}
		return conflict
	})
	list.Skipped = c.skipped
}

func readCertificate(der []byte) (*x509.Certificate, Skip) {
	if len(der) > maxCertificate {
		return nil, SkipCertificate
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, SkipCertificate
	}
	return certificate, ""
}

// clip returns a name of at most maxName bytes.
func clip(name string) string {
	if len(name) <= maxName {
		return name
	}
	end := maxName
	for end > 0 && name[end]&0xC0 == 0x80 { // not inside a character
		end--
	}
	return name[:end]
}
