package delivery

// Verdict is the effect of one attempt's result on the event.
type Verdict int

// Retry is the zero Verdict, so that an event is not lost if its attempt was not classified.
const (
	Retry     Verdict = iota // try again, while the Schedule has more
	Delivered                // 2xx: done
	// 4xx: the receiver does not want the event, and another attempt would not change that
	Failed
)

func (v Verdict) String() string {
	switch v {
	case Delivered:
		return "delivered"
	case Failed:
		return "given_up"
	}
	return "retry"
}

// Classify returns the verdict for the status of a response or, without a response, for err. A transport
// error does not mean that the receiver rejects the event. A redirect is not followed, so it does not count
// as a response (contract 26). The same applies to a status that HTTP does not define.
func Classify(status int, err error) Verdict {
	switch {
	case err != nil:
		return Retry
	case status >= 200 && status < 300:
		return Delivered
	case status >= 400 && status < 500:
		return Failed
	}
	return Retry
}
