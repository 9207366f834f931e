package pages

import (
	"strconv"
	"strings"
	"time"
)

// months has the names of the months as they are written in a date.
var months = map[string]string{
	"en": "January February March April May June July August September October November December",
	"de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
	"es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
	"fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
	"it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
	"pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
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
	return d + between + strings.Fields(months[lang])[month-1] + between + strconv.Itoa(year)
}
