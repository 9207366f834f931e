package trustlist

import "time"

// Read verifies a trusted list and returns the certificates in it that may issue documents of the expected
// type. An error is an *Error.
//
// now must be the time of reading: certificates of signers count only within their dates.
func Read(format Format, document []byte, expected Expected, now time.Time) (List, error) {
	if len(document) > MaxSize {
		return List{}, rejected(TooLarge, "the document has more than 16 MiB")
	}
	return List{}, rejected(UnknownFormat, "the format is not known")
}
