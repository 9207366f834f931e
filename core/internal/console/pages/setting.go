package pages

import (
	"encoding/json"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
)

// rowsOf returns the settings of a section of the form, by row.
func rowsOf(section string) (rows [][]integration.Setting) {
	for n := 1; ; n++ {
		var row []integration.Setting
		for _, s := range integration.Settings {
			if s.Section == section && s.Row == n {
				row = append(row, s)
			}
		}
		if row == nil {
			return rows
		}
		rows = append(rows, row)
	}
}

// inputOf returns the input for a setting, with its current value.
func inputOf(d IntegrationData, s integration.Setting) Input {
	in := Input{Name: s.Name, Label: s.Label, Hint: s.Hint, Placeholder: s.Placeholder,
		Optional: !s.Required && len(s.Options) == 0, Value: s.Text(&d.Integration.Integration)}
	switch v := s.Value(&d.Integration.Integration).(type) {
	case string:
		if in.Type = "choice"; len(s.Options) == 0 {
			in.Type, in.Mono = "url", true
		}
		for _, o := range s.Options {
			in.Options = append(in.Options, Option(o))
		}
	case int:
		in.Type = "number"
	case []string:
		if in.Mono = s.Items == ""; !in.Mono {
			in.Type, in.Value = "lines", lines(v)
		}
	case map[string]json.RawMessage:
		in.Value = overridden(&d.Integration.Integration)
	}
	return in
}

// fact returns the value of a setting as text for people who cannot change it.
func fact(i operate.Integration, s integration.Setting) string {
	in := inputOf(IntegrationData{Integration: i}, s)
	if in.Value == "" && s.Default != "" {
		return s.Default
	}
	for _, o := range in.Options {
		if o.Value == in.Value {
			return o.Text
		}
	}
	if len(in.Options) > 0 {
		return in.Options[0].Text
	}
	return in.Value
}
