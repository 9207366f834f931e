package delivery

import (
	"errors"
	"testing"
)

func TestClassify(t *testing.T) {
	for _, tc := range []struct {
		rule     string
		from, to int
		err      error
		want     Verdict
	}{
		{"contract 26: 2xx delivered", 200, 299, nil, Delivered},
		{"contract 26: 4xx fails without a retry", 400, 499, nil, Failed},
		{"contract 26: 3xx retried", 300, 399, nil, Retry},
		{"contract 26: 5xx retried", 500, 599, nil, Retry},
		{"a status that is not final is retried", -1, 199, nil, Retry},
		{"a status that HTTP does not define is retried", 600, 1000, nil, Retry},
		{"contract 26: an error is retried with any status", 200, 499, errors.New("reset"),
			Retry},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			for status := tc.from; status <= tc.to; status++ {
				if got := Classify(status, tc.err); got != tc.want {
					t.Fatalf("%d is %v, want %v", status, got, tc.want)
				}
			}
		})
	}
}
