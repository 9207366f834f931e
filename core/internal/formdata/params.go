package formdata

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// ParameterError is the name of a parameter that Verge uses, and that occurs more than once or cannot be
// decoded. It does not contain the value, which may be a secret.
type ParameterError string

func (e ParameterError) Error() string { return string(e) + " occurs twice or is badly encoded" }

// ReadParameters returns the parameters of a query or of a form (application/x-www-form-urlencoded) that have
// one of the names. It is for parameters that come through a browser, a provider or a wallet (contract 22).
//
// Others add parameters that Verge does not know. So a parameter without one of the names is ignored:
// repeated, badly encoded or with a semicolon, which separates nothing. A parameter with one of the names
// occurs at most once, and its value is UTF-8 in good percent encoding. Otherwise the error is a
// ParameterError.
func ReadParameters(text string, names ...string) (url.Values, error) {
	values := url.Values{}
	for pair := range strings.SplitSeq(text, "&") {
		escaped, rest, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(escaped)
		if err != nil || !slices.Contains(names, name) || pair == "" {
			continue
		}
		value, err := url.QueryUnescape(rest)
		if err != nil || !utf8.ValidString(value) || values.Has(name) {
			return nil, ParameterError(name)
		}
		values.Set(name, value)
	}
	return values, nil
}

// ReadOAuth is ReadParameters for a message of OAuth, OpenID Connect or OpenID4VP: a parameter without a
// value counts as absent (RFC 6749, 3.1 and 3.2).
func ReadOAuth(text string, names ...string) (url.Values, error) {
	values, err := ReadParameters(text, names...)
	for name := range values {
		if values.Get(name) == "" {
			delete(values, name)
		}
	}
	return values, err
}
