package pages

import (
	"testing"

	"github.com/verge-id/verge/core/integration"
)

// Contract 45: the form of an integration has every setting, in one of its sections.
func TestSettings_Form(t *testing.T) {
	inForm := map[string]bool{}
	for _, section := range []string{"proof", "access", "methods"} {
		for _, row := range rowsOf(section) {
			for _, s := range row {
				inForm[s.Name] = true
			}
		}
	}
	for _, s := range integration.Settings {
		if !inForm[s.Name] {
			t.Errorf("%s is not in the form: its section does not exist, or has no row %d", s.Name, s.Row-1)
		}
	}
}
