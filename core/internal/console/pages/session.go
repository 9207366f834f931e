package pages

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/operate"
)

// outcomes are the outcomes of sessions, with their tones and words.
var outcomes = []struct{ value, tone, word string }{
	{host.OutcomeCompleted, Good, "Completed"},
	{host.OutcomeRejected, Bad, "Rejected"},
	{host.OutcomeMaxAttempts, Bad, "Max attempts"},
	{host.OutcomeUnknown, Bad, "Failed"},
	{host.OutcomeCancelled, Wait, "Cancelled"},
	{host.OutcomeExpired, Idle, "Expired"},
}

var outcomeOptions = func() []Option {
	all := []Option{{"", "All"}}
	for _, o := range outcomes {
		all = append(all, Option{o.value, o.word})
	}
	return all
}()

func outcomeTone(outcome string) (tone, word string) {
	for _, o := range outcomes {
		if o.value == outcome {
			return o.tone, o.word
		}
	}
	return Idle, outcome
}

// methodOptions returns the methods for the filter: all of the service, and the selected one.
func methodOptions(d SessionsData) []Option {
	all := []Option{{"", "All"}}
	for _, m := range d.Methods {
		all = append(all, Option{m.Name, m.Name})
	}
	all = append(all, Option{"passkey", "passkey"})
	if !slices.ContainsFunc(all, func(o Option) bool { return o.Value == d.Filter.Method }) {
		all = append(all, Option{d.Filter.Method, d.Filter.Method})
	}
	return all
}

func methodWord(method string) string { return cmp.Or(method, "none tried") }

func sessionsPath(f *Frame, q operate.FinishedQuery) string {
	return with(f.path("sessions"), "outcome", q.Outcome, "method", q.Method, "integration", q.Integration,
		"from", q.From, "to", q.To)
}

// completion returns the number of sessions that have ended, and the share that completed.
func completion(days []usage.Day) (ended int, share string) {
	completed := 0
	for _, d := range days {
		for _, o := range outcomes {
			ended += int(d.Counts.Of(o.value))
		}
		completed += int(d.Counts.Of(host.OutcomeCompleted))
	}
	return ended, percent(completed, ended)
}

// percent writes a share. It rounds to 100 % only if all are included, and to 0 % only if none are.
func percent(n, all int) string {
	switch {
	case all == 0:
		return "–"
	case n > 0 && n*100 < all:
		return "< 1%"
	case n < all && n*1000 >= all*995:
		return "99%"
	}
	return strconv.Itoa((n*200+all)/(2*all)) + "%"
}

// methodRow contains the outcomes of the sessions that ended with a method.
type methodRow struct {
	Method                                string
	Completed, Failed, Cancelled, Expired int
}

func (r methodRow) all() int { return r.Completed + r.Failed + r.Cancelled + r.Expired }

// byMethod counts sessions by method, the most frequent first.
func byMethod(sessions []operate.FinishedSession) (rows []methodRow) {
	for _, s := range sessions {
		at := slices.IndexFunc(rows, func(r methodRow) bool { return r.Method == s.Method })
		if at < 0 {
			at = len(rows)
			rows = append(rows, methodRow{Method: s.Method})
		}
		r := &rows[at]
		switch s.Outcome {
		case host.OutcomeCompleted:
			r.Completed++
		case host.OutcomeCancelled:
			r.Cancelled++
		case host.OutcomeExpired:
			r.Expired++
		default:
			r.Failed++
		}
	}
	slices.SortStableFunc(rows, func(a, b methodRow) int {
		return cmp.Or(b.all()-a.all(), cmp.Compare(a.Method, b.Method))
	})
	return rows
}
