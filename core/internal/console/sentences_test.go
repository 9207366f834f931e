package console

import (
	"testing"

	"github.com/verge-id/verge/core/web"
)

func TestSentences(t *testing.T) {
	for message, want := range map[string]string{
		"challenge_age is 0; it must be from 1 to 99": "Challenge age is 0; it must be from 1 to 99",
		`method is "a_b"; this service has: bank`:     `Method is "a_b"; this service has: bank`,
		"The name is too long.":                       "The name is too long.",
		"über":                                        "Über",
		"":                                            "",
	} {
		if got := sentences([]web.FieldError{{Message: message}})[0].Message; got != want {
			t.Errorf("%q becomes %q, want %q", message, got, want)
		}
	}
}
