package web

// PageHeader returns the header of every page for people (contract 22, 43). Such a page cannot be framed,
// cached or indexed. It loads its stylesheet and pictures from this host, and sends its forms there. more is
// the addition of a page with a script to the Content-Security-Policy, such as "script-src 'self'; ".
func PageHeader(more string) Header {
	return Header{
		"Content-Security-Policy": {"default-src 'none'; style-src 'self'; img-src 'self'; " + more +
			"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
		"X-Frame-Options":              {"DENY"},
		"X-Content-Type-Options":       {"nosniff"},
		"Referrer-Policy":              {"same-origin"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"Permissions-Policy":           {"camera=(), microphone=(), geolocation=(), payment=()"},
		"Strict-Transport-Security":    {"max-age=31536000"},
		"Cache-Control":                {"no-store"},
		"X-Robots-Tag":                 {"noindex, nofollow"},
	}
}
