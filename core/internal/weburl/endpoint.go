package weburl

// CheckEndpoint returns the fault of the address of a server that may be asked, or that a browser may be sent
// to, on the word of a configuration or of another server, or "". It is an absolute https URL of at most 2048
// bytes, without user name and fragment. dev also allows http to a loopback host.
func CheckEndpoint(s string, dev bool) (problem string) {
	base, problem := readURL(s)
	switch {
	case problem == callbackRelative:
		return endpointRelative
	case problem != "" || base.scheme == "https" || dev && base.scheme == "http" && base.loopback():
		return problem
	case dev:
		return callbackDevScheme
	}
	return callbackScheme
}

// endpointRelative is the text for an address without a scheme. No publisher sets such an address.
const endpointRelative = "The URL must be absolute, such as https://id.example.com."

// IsEndpoint reports whether CheckEndpoint finds no fault.
func IsEndpoint(s string, dev bool) bool { return CheckEndpoint(s, dev) == "" }
