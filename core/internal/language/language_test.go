package language

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct{ rule, header, want string }{
		{"contract 10: English without a header", "", "en"},
		{"one of the six", "de", "de"},
		{"contract 10: English for any other", "nl", "en"},
		{"a region stands for its language", "pt-BR", "pt"},
		{"so does a script with a region", "de-Latn-CH", "de"},
		{"a locale of an operating system stands for its language", "pt_BR", "pt"},
		{"with a weight, among tags", "nl-NL,pt_PT;q=0.8,en;q=0.5", "pt"},
		{"an underscore alone is no language", "_,_de;q=0.9,it;q=0.1", "it"},
		{"tags have no case", "FR-ca", "fr"},
		{"a longer language is another language", "deu", "en"},
		{"the first of equals", "it,es", "it"},
		{"RFC 9110 12.4.2: the higher weight, in any order", "es;q=0.5,fr;q=0.8", "fr"},
		{"RFC 9110 12.4.2: no weight is 1", "es;q=0.9,fr", "fr"},
		{"what we lack is passed over", "nl,sv;q=0.9,it;q=0.1", "it"},
		{"a browser's usual header", "de-AT,de;q=0.9,en-US;q=0.8,en;q=0.7", "de"},
		{"three decimals count", "es;q=0.998,fr;q=0.999", "fr"},
		{"white space around", " es ; q=0.2 ,\tfr\t;\tq=0.3 ", "fr"},
		{"Q as well as q", "es;Q=0.2,fr;q=0.3", "fr"},
		{"RFC 9110 12.4.2: 0 is not acceptable", "de;q=0", "en"},
		{"RFC 9110 12.4.2: nor 0.000", "de;q=0.000,it;q=0.001", "it"},
		{"any is English", "*", "en"},
		{"any but English is our next language", "en;q=0,*", "de"},
		{"any is less than what is named higher", "fr,*;q=0.5", "fr"},
		{"any is more than what is named lower", "fr;q=0.1,*;q=0.5", "en"},
		{"any of weight 0 adds no language", "*;q=0", "en"},
		{"all named and rejected: still a page", "en;q=0,de;q=0,es;q=0,fr;q=0,pt;q=0,it;q=0,*", "en"},
		{"empty elements are allowed", ",,de,,", "de"},
		{"a weight above 1 is none", "de;q=1.001,it;q=0.1", "it"},
		{"a weight of four decimals is none", "de;q=0.9999,it;q=0.1", "it"},
		{"a weight without digits is none", "de;q=,it;q=0.1", "it"},
		{"a negative weight is none", "de;q=-1,it;q=0.1", "it"},
		{"another parameter is none", "de;level=1,it;q=0.1", "it"},
		{"a weight with something behind is none", "de;q=1;x=y,it;q=0.1", "it"},
		{"only so much is read", strings.Repeat("xx,", maxAcceptLanguage) + "de", "en"},
		{"what is cut in two does not count", strings.Repeat(" ", maxAcceptLanguage-4) + ",de-x,it", "en"},
	} {
		if got := Match(c.header); got != c.want {
			t.Errorf("%s: %q gives %s, want %s", c.rule, c.header, got, c.want)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, s := range []string{"", "de", "de-AT,de;q=0.9,en;q=0.8", "*;q=0.5", ";q=1", "de;q=0.", ",;=*-",
		strings.Repeat("a,", 2000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got := Match(header)
		if !Known(got) {
			t.Errorf("%q gives %q, which is not our language", header, got)
		}
		if got != Default && got != "de" && !strings.Contains(strings.ToLower(header), got) &&
			!strings.Contains(header, "*") {
			t.Errorf("%q gives %q, which it does not name", header, got)
		}
	})
}
