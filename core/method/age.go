package method

import "time"

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
