package trustlist

import "time"

// clockSkew is how far a date of a list may be ahead of the reader's clock.
const clockSkew = 5 * time.Minute

// Read verifies a trusted list and returns the certificates in it that may issue documents of the expected
// type. An error is an *Error.
//
// now must be the time of reading: certificates of signers count only within their dates.
func Read(format Format, document []byte, expected Expected, now time.Time) (List, error) {
	if len(document) > MaxSize {
		return List{}, rejected(TooLarge, "the document has more than 16 MiB")
	}
	var read func([]byte, Expected, time.Time) (List, *Error)
	switch format {
	case TS119612:
		read = readTS119612
	case TS119602:
		read = readTS119602
	case VICAL:
		read = readVICAL
	default:
		return List{}, rejected(UnknownFormat, "the format is not known")
	}
	if err := expected.check(format); err != nil {
		return List{}, err
	}
	list, err := read(document, expected, now)
	if err != nil {
		return List{}, err
	}
	if err := list.checkDates(now); err != nil {
		return List{}, err
	}
	return list, nil
}

// check returns an error if the caller expects nothing that a list could have.
func (e *Expected) check(format Format) *Error {
	if len(e.Signers) == 0 {
		return rejected(NothingExpected, "no certificate may sign it")
	}
	if format == VICAL {
		if e.DocType == "" {
			return rejected(NothingExpected, "no document type is wanted")
		}
		return nil
	}
	if len(e.ServiceTypes) == 0 {
		e.ServiceTypes = serviceTypes[e.DocType]
	}
	if len(e.ServiceTypes) == 0 {
		return rejected(NothingExpected, "no service type is known for the document type")
	}
	return nil
}

func (l *List) checkDates(now time.Time) *Error {
	switch {
	case l.Issued.After(now.Add(clockSkew)):
		return rejected(IssuedInFuture, "its date of issue is in the future")
	case !l.NextUpdate.IsZero() && l.NextUpdate.Before(l.Issued):
		return rejected(Malformed, "its next update is before its date of issue")
	}
	return nil
}
