package api

import (
	"strings"
	"testing"
)

func TestDocsPageNamesWhatItLoads(t *testing.T) {
	page := string(docsPage)
	for _, path := range []string{`href="` + DocsCSSPath + `"`, `href="` + OpenAPIPath + `"`} {
		if !strings.Contains(page, path) {
			t.Errorf("the page has no %s", path)
		}
	}
	for _, id := range []string{"startVerification", "validateResult", "getSession", "quick-start",
		"verify-a-webhook", "errors", "webhooks"} {
		if !strings.Contains(page, ` id="`+id+`"`) {
			t.Errorf("the page has no anchor %s", id)
		}
	}
	if !strings.Contains(string(OpenAPI()), "\n  "+OpenAPIPath+":\n") {
		t.Errorf("the description does not have its own path %s", OpenAPIPath)
	}
}

func TestDocsCSSLoadsNothing(t *testing.T) {
	for _, word := range []string{"@import", "url(", "http"} {
		if strings.Contains(string(docsCSS), word) {
			t.Errorf("the style sheet has %s", word)
		}
	}
}
