package pages

import (
	"strconv"
	"strings"
	"time"
)

// months returns the names of the months as they are written in a date.
func months(lang string) string {
	switch lang {
	case "en":
		return "January February March April May June July August September October November December"
	case "de":
		return "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
	case "es":
		return "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
	case "fr":
		return "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
	case "it":
		return "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"
	case "pt":
		return "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro"
	}
	return ""
}

// day writes a date in UTC as readers of the language do, such as "22 November 2026".
func day(lang string, at time.Time) string {
	year, month, date := at.UTC().Date()
	d, between := strconv.Itoa(date), " "
	switch {
	case lang == "de":
		d += "."
	case lang == "es" || lang == "pt":
		between = " de "
	case lang == "fr" && date == 1:
		d = "1er"
	case lang == "it" && date == 1:
		d = "1º"
	}
	return d + between + strings.Fields(months(lang))[month-1] + between + strconv.Itoa(year)
}
