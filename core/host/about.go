package host

// About is what a request or a job is about, for the line that the host logs of it (contract 48). A member is
// "" if it is not known.
type About struct {
	Session     string // as publishers know it
	Integration string // UUID
	Publisher   string
	Key         string // the id of the API key that has authenticated the request
	Code        string // of the error that is the answer
}

// With returns a with what more knows. What more does not know stays.
func (a About) With(more About) About {
	for _, m := range []struct {
		of  *string
		now string
	}{
		{&a.Session, more.Session}, {&a.Integration, more.Integration}, {&a.Publisher, more.Publisher},
		{&a.Key, more.Key}, {&a.Code, more.Code},
	} {
		if m.now != "" {
			*m.of = m.now
		}
	}
	return a
}

// Told returns a without the members that are no ids or codes. The core sends no such member, but a hostile
// module can, and the line of the log is the host's own.
func (a About) Told() About {
	for _, m := range []*string{&a.Session, &a.Integration, &a.Publisher, &a.Key, &a.Code} {
		if !isName(*m) {
			*m = ""
		}
	}
	return a
}

// maxAbout is the most bytes of a member of About.
const maxAbout = 200

// isName reports whether a text has the characters of ids and codes alone.
func isName(s string) bool {
	if len(s) > maxAbout {
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
