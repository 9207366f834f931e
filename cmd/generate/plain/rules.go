package main

import "regexp"

// rule is one row of the style guide: a pattern of words that readers stumble over, and a better choice.
type rule struct {
	pattern *regexp.Regexp
	better  string
}

// begins is the begin of a sentence in a paragraph.
const begins = `(?:^|[.:;!?] )`

// rules ignore case, except for those that begin with (?-i).
var rules = compile([][2]string{
	// Actors and things without a name.
	{`\bwho(?:ever|m)\b`, "name the actor: anyone who, the operator, the attacker"},
	{`\b(?:no|some)body\b`, "no one; someone; name the actor"},
	{`\bthe other side\b`, "the provider, the wallet, the estimator"},
	{`\b(?:the|an?|each|every|any) one(?:s)? (?:before|behind|after|that)\b`, "name the thing"},
	{`\b(?:is|are|was|were|as|than|with|of|to) (?:that|those) of\b`, "repeat the noun"},
	{`\bnothing of (?:it|the|a|an|this|that|them|what)\b`, "none of the X; no data about X"},
	{
		`\bsays? (?:whose|who|which|what|why|how|whether|when|where|until|so)\b`,
		"reports, lists, describes, states",
	},
	{
		`\btells? (?:whose|who|which|what|why|how|whether|of|apart|one|it|them)\b`,
		"reports, lists; distinguishes",
	},
	{`\b(?:is|are|was|were|be|been) told\b`, "is notified; receives"},
	{`\btold apart\b`, "distinguished"},
	{`\bwhat (?:came|comes|became|becomes) of\b`, "the result of; the status of"},
	{`\bhears?\b|\bheard\b`, "receives; is notified of"},
	{`\b(?:of|and|or|but|with|by|in|from|to|about|is|are|shows?|lists?|reads?|returns?|keeps?|writes?) ` +
		`what (?:is|are|was|were|has|have|had|it|they|a|an|the|this|its|others?|comes|came|belongs|waits)\b`,
		"use a noun: the error, the content, the result"},
	{`\b(?:decides?|judges?|finds?|chang(?:es?|ing)|collects?|reports?|forgets?|checks?|copies|takes?|names?) ` +
		`what\b`, "use a noun: the error, the content, the result"},
	{`\bwhatever\b`, "any; even if"},
	{
		`(?-i)` + begins + `What (?:[a-z]+ ){2,12}(?:is|are|has|gets|goes|was|makes|takes)\b`,
		"begin with a noun",
	},
	{`(?-i)` + begins + `Whose\b`, "begin with a noun"},
	{`(?-i)` + begins + `(?:Those|One|That) (?:of|that|who|with|without|from|for) `, "begin with a noun"},
	// The field's verbs.
	{`\b(?:is|are|was|were|be|been) refused\b`, "is rejected; returns 4xx"},
	{`\brefuses? (?:a|an|the|every|each|all|any|it|one|that|those|to)\b`, "rejects"},
	{`\brefused (?:a|an|the|for|with|by|before)\b`, "rejected"},
	{`\banswers? [1-5][0-9x]{2}\b`, "returns 4xx"},
	{`\b(?:is|are) answered\b`, "returns; is completed"},
	{
		`\b(?:the|an|each|every|its|same) answers? (?:is|was|has|of|that|to|with|for|by|in|comes?)\b`,
		"response",
	},
	{`\b(?:goes|go|going|went|gone) on\b`, "continues; in progress"},
	{`\bgives? (?:it |an? event |the event )?up\b|\bgiven up\b`, "stop retrying; fail"},
	{`\bputs? (?:it |them )?off\b`, "postpone"},
	{`\bputs? (?:it |them )?back\b`, "restore; roll back"},
	{`\bmend(?:s|ed|ing)?\b`, "fix"},
	{`\bstands? (?:in|at|above|below|before|behind|on|where|alone)\b`, "is stored in; appears in"},
	{`\b(?:lies|lie|lay) (?:in|at|with|within|outside|under|behind|beyond)\b`, "is stored in"},
	{`\bholds? (?:to|against)\b|\bheld (?:to|against)\b`, "is compared with; is checked against"},
	{`\bgives? way\b|\bgave way\b`, "is closed; is dropped"},
	{`\blooks? (?:at|again)\b|\blooked at\b`, "reads; checks"},
	{`\bwants (?:a|an|the|no|to|its|one)\b`, "requires; expects"},
	{`\bcomes? about\b|\bcame about\b`, "occurs"},
	{`\b(?:knows|learns) (?:of|no|nothing)\b`, "does not receive; has no access to"},
	{
		`\bmakes? (?:an? |the )?(?:link|key|token|session|publisher|integration|passkey|secret|backup)s?\b`,
		"creates; generates",
	},
	{
		`\b(?:proves|grants|changes|decides|keeps|sends|says|makes|finds|sees|asks|gives|takes|loses|` +
			`counts|stores|costs|adds|trusts|writes|reads|records|tells) nothing\b`,
		"state the result: the state is unchanged",
	},
	{`\btakes? no [a-z]+\b`, "accepts no; cannot be changed"},
	// Words that can be read in two ways.
	{`\bat once\b`, "immediately, or: at the same time"},
	{`\bby (?:itself|themselves)\b`, "automatically, or: alone"},
	{`\banew\b|\bonce more\b`, "again"},
	{`\bone after the other\b`, "one at a time"},
	{`\b(?:any|no) more[.,;:)]|\b(?:not|never|nothing|none) (?:[a-z]+ ){1,6}any ?more\b`, "no longer"},
	{`\bfrom (?:then|now) on\b`, "after that"},
	{`\bin hand\b|\bunder way\b`, "active; in progress"},
	{`\b(?:takes?|took|in) (?:the |its |their )?place of\b`, "replaces; instead of"},
	{`\bwithout (?:an )?end\b|\bfor ever\b|\bfor good\b`, "indefinitely; permanently"},
	{`\b(?:is|are|was|were) (?:not |still |already )?there[.,;:)]`, "exists; is present; is missing"},
	{`\bthere (?:is|are|was|were) none\b|\bnone (?:is|are) there\b`, "no results; none configured"},
	{`\bbeside (?:it|this|that|the|these|those|them|an?|its)\b`, "next to; in addition to"},
	// Order of words.
	{`(?-i)` + begins + `Of (?:[a-z]+ ){1,8}(?:it|the|only|a|an|one|no) `, "begin with the subject"},
	{`\b(?:of|by|with|against|beyond) which (?:it|the|an?|they|no|each|every|is|was|are|were)\b`,
		"split the sentence"},
	{`\balso (?:if|where|when|without|those|after|with|in|for|from|on|before)\b`, "even if; including"},
	{`\bof (?:ours|yours|theirs|mine)\b`, "our X; your X"},
	{`\b(?:an?|no|every|each) (?:[a-z]+ ){1,3}of (?:its|their|our|ones) own\b`, "its own X; a separate X"},
	{`\bas (?:it|they) (?:is|are|was|were)[.,;]`, "unchanged"},
	{`(?-i)` + begins + `(?:Nor|Neither|Only so|Thus) (?:is|are|does|do|can|has|have|may|must|will)\b`,
		"begin with the subject"},
	// Terms.
	{`\bkeys? that seals?\b`, "active key"},
	{`\bfaults? of (?:verge|the service)\b`, "internal error"},
	{
		`\ball that (?:is|was|it|they|the|has|are)\b|\beverything that (?:is|was|it|has|needs)\b`,
		"every X; the whole X",
	},
})

func compile(table [][2]string) []rule {
	out := make([]rule, len(table))
	for i, row := range table {
		out[i] = rule{regexp.MustCompile(`(?i)` + row[0]), row[1]}
	}
	return out
}
