package weburl

// IsEndpoint reports whether s is the address of a server that may be asked, or that a browser may be sent
// to, on the word of a configuration or of another server: an absolute https URL of at most 2048 bytes,
// without user name and fragment. dev also allows http to a loopback host.
func IsEndpoint(s string, dev bool) bool {
	if len(s) > maxLength || checkURLText(s) != "" {
		return false
	}
	base, _, _, problem := splitURL(s)
	return problem == "" && (base.scheme == "https" || dev && base.scheme == "http" && base.loopback())
}
