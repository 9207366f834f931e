package usage

import (
	"encoding/csv"
	"io"
	"strconv"

	"github.com/verge-id/verge/core/host"
)

// WriteCSV writes days of an integration as CSV, one per line, after a header line. The lines of several
// integrations can be concatenated.
func WriteCSV(w io.Writer, integration string, days []Day) error {
	out := csv.NewWriter(w)
	if err := out.Write(append(append([]string{"integration_id", "day"}, host.Outcomes()...),
		"open")); err != nil {
		return err
	}
	for _, d := range days {
		line := []string{integration, d.Day.String()}
		for _, outcome := range host.Outcomes() {
			line = append(line, strconv.FormatUint(d.Counts.Of(outcome), 10))
		}
		if err := out.Write(append(line, strconv.FormatUint(d.Open(), 10))); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
