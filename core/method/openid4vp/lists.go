package openid4vp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/pemfile"
)

// Limits and defaults of trusted lists.
const (
	maxTrustLists = 8
	maxListName   = 32
	maxFile       = 1024 // bytes of a path
	maxSigners    = 16   // of one list

	standardGrace = 7 * 24 * time.Hour
	maxGrace      = 90 * 24 * time.Hour
)

// knownOfList are the members of a trusted list.
var knownOfList = []string{"name", "url", "file", "format", "signers", "grace"}

// listsIn returns the lists of settings that are good.
func listsIn(c method.Config) []method.TrustList {
	s, _ := parse(c)
	return s.lists
}

// isAnchor reports whether a certificate of a list can be an anchor.
func isAnchor(der []byte) bool {
	_, ok := mdoc.ListedAnchor(der)
	return ok
}

// readLists reads the trusted lists.
func (s *settings) readLists(r reader, dev bool) {
	v := r.o.Value(listsName)
	all, ok := v.List()
	if v.Present() && (!ok || len(all) == 0) {
		r.wrong.Add(
			listsName,
			"it must be a list of tables, [[methods.openid4vp.%s]], and not empty",
			listsName,
		)
		return
	}
	if len(all) > maxTrustLists {
		r.wrong.Add(listsName, "there are %d lists; at most %d are allowed", len(all), maxTrustLists)
		return
	}
	for n, v := range all {
		member := listsName + "." + strconv.Itoa(n+1)
		o, ok := v.Object()
		if !ok {
			r.wrong.Add(member, "it must be a table with url or file, format and signers")
			continue
		}
		l := reader{member + ".", o, r.wrong}.list(n, dev)
		l.DocType = s.profile.doctype
		if slices.ContainsFunc(s.lists, func(other method.TrustList) bool { return other.Name == l.Name }) {
			r.wrong.Add(member+".name", "%q is the name of two lists; give each its own", l.Name)
		}
		s.lists = append(s.lists, l)
	}
}

// list reads the list at place n.
func (r reader) list(n int, dev bool) (l method.TrustList) {
	r.checkNames(knownOfList)
	if l.Name = r.text("name"); !r.o.Value("name").Present() {
		l.Name = strconv.Itoa(n + 1)
	} else if !isListName(l.Name) {
		r.add("name", "%q is no name; use 1 to %d lower case letters, digits and -", l.Name, maxListName)
	}
	l.URL, l.File = r.source("list", dev)
	if l.Format = r.text("format"); !slices.Contains(method.ListFormats, l.Format) {
		r.add("format", "%q is not known; use one of: %s", l.Format, strings.Join(method.ListFormats, ", "))
	}
	l.Signers = r.signers()
	l.Grace = r.grace()
	return l
}

// checkNames rejects members that are not known.
func (r reader) checkNames(known []string) {
	for _, name := range r.o.Names() {
		if !slices.Contains(known, name) {
			r.add(name, "it is not known here; use only: %s", strings.Join(known, ", "))
		}
	}
}

// source reads the address or the path of a thing.
func (r reader) source(thing string, dev bool) (url, file string) {
	url, file = r.text("url"), r.text("file")
	switch {
	case (url == "") == (file == ""):
		r.add("url", "name either url, the https address of the %s, or file, its path", thing)
	case url != "":
		if problem := weburl.CheckEndpoint(url, dev); problem != "" {
			r.add("url", "%s", problem)
		}
	case len(file) > maxFile || strings.ContainsFunc(file, isControl):
		r.add("file", "it must be a path of at most %d bytes", maxFile)
	}
	return url, file
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

func isListName(s string) bool {
	return len(s) > 0 && len(s) <= maxListName &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// signers reads the certificates of the list's signers.
func (r reader) signers() (all [][]byte) {
	const how = `it must be a list of PEM files with the certificates of those who sign the list, such as ` +
		`["signer.pem"]`
	files, ok := r.o.Value("signers").List()
	if !ok || len(files) == 0 {
		r.add("signers", how)
		return nil
	}
	for _, v := range files {
		text, ok := v.Text()
		if !ok {
			r.add("signers", how)
			return nil
		}
		certificates, err := pemfile.Certificates([]byte(text))
		if err != nil {
			r.add("signers", "%v", err)
			return nil
		}
		for _, c := range certificates {
			all = append(all, c.Raw)
		}
	}
	if len(all) > maxSigners {
		r.add("signers", "there are %d certificates; at most %d are allowed", len(all), maxSigners)
	}
	return all
}

// grace reads how long a list counts after its next update is due.
func (r reader) grace() time.Duration {
	if !r.o.Value("grace").Present() {
		return standardGrace
	}
	text, _ := r.o.Value("grace").Text()
	d, err := readGrace(text)
	if err != nil || d < 0 || d > maxGrace {
		r.add("grace", "it must be a duration of at most %d days, such as 7d or 36h", maxGrace/(24*time.Hour))
		return standardGrace
	}
	return d
}

// readGrace reads a duration as the configuration file writes them: in days, or in Go's units.
func readGrace(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of days", days)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}
