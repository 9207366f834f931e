package usage

import (
	"encoding/csv"
	"io"
	"strconv"

	"github.com/verge-id/verge/core/host"
)

// WriteCSV writes days as CSV, one per line, after a header line. The first column is the id of the
// integration or publisher, so lines of several can be concatenated.
func WriteCSV(w io.Writer, column, id string, days []Day) error {
	out := csv.NewWriter(w)
	if err := out.Write(append(append([]string{column, "day"}, host.Outcomes()...),
		"open")); err != nil {
		return err
	}
	for _, d := range days {
		line := []string{id, d.Day.String()}
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
