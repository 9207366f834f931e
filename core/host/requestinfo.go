package host

import "cmp"

// RequestInfo is the subject of a request or a job, for its line in the host's log (contract 48). A field is
// "" if it is not known.
type RequestInfo struct {
	Session     string // as publishers know it
	Integration string // UUID
	Publisher   string
	Key         string // the id of the API key that has authenticated the request
	Code        string // of the error in the response
}

// With returns a with the fields of more that are not empty.
func (a RequestInfo) With(more RequestInfo) RequestInfo {
	return RequestInfo{
		Session:     cmp.Or(more.Session, a.Session),
		Integration: cmp.Or(more.Integration, a.Integration),
		Publisher:   cmp.Or(more.Publisher, a.Publisher),
		Key:         cmp.Or(more.Key, a.Key),
		Code:        cmp.Or(more.Code, a.Code),
	}
}

// Sanitized returns a without the fields that are no ids or codes. The core sends none, but a hostile module
// can.
func (a RequestInfo) Sanitized() RequestInfo {
	for _, m := range []*string{&a.Session, &a.Integration, &a.Publisher, &a.Key, &a.Code} {
		if !isName(*m) {
			*m = ""
		}
	}
	return a
}

// maxInfo is the maximum number of bytes of a field of RequestInfo.
const maxInfo = 200

// isName reports whether a text has the characters of ids and codes alone.
func isName(s string) bool {
	if len(s) > maxInfo {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
