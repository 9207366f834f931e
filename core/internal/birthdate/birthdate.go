// Package birthdate reads dates of birth, and computes ages.
package birthdate

import (
	"strings"
	"time"
)

// MaxAge is the highest age that a method can prove. A date of birth that makes someone older is wrong.
const MaxAge = 120

// Age returns the age in whole years of someone born on a date, by the calendar in UTC. Anyone born on
// 29 February has the birthday on 1 March in other years. It is not ok if the date is in the future or too
// long ago.
func Age(born, now time.Time) (years int, ok bool) {
	today := now.UTC()
	years = today.Year() - born.Year()
	if today.Month() < born.Month() || today.Month() == born.Month() && today.Day() < born.Day() {
		years--
	}
	return years, years >= 0 && years <= MaxAge
}

// Parse reads the claim birthdate: YYYY-MM-DD, or YYYY (OpenID Connect Core, 5.1). FranceConnect writes
// an unknown day, or an unknown day and month, as 00. An incomplete date is the last day that it can stand
// for. It is not ok for other texts, such as a date without its year (0000-MM-DD).
func Parse(text string) (born time.Time, ok bool) {
	year, isYear := strings.CutSuffix(text, "-00-00")
	month, isMonth := strings.CutSuffix(text, "-00")
	var err error
	switch {
	case isYear, len(text) == len("2006"):
		born, err = time.Parse(time.DateOnly, year+"-12-31")
	case isMonth:
		born, err = time.Parse("2006-01", month)
		born = born.AddDate(0, 1, -1)
	default:
		born, err = time.Parse(time.DateOnly, text)
	}
	return born, err == nil && born.Year() > 0
}
