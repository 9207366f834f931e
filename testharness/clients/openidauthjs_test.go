package clients

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// authJSModules is where .ci/install puts @auth/core, the part of NextAuth without a framework.
const authJSModules = "/usr/local/lib/authjs/node_modules"

// contract 50: @auth/core, with the configuration of the console's page for NextAuth, signs in verified users
// alone.
func TestOpenIDClient_AuthJS(t *testing.T) {
	long.Skip(t, "TestOpenIDClient_AuthJS")
	const origin = "https://shop.example"
	const redirect = origin + "/api/auth/callback/verge"
	testenv.File(t, filepath.Join(authJSModules, "@auth/core/package.json"))
	h := newOpenIDProvider(t, redirect)
	h.AdvanceTo(time.Now()) // Node.js has its own clock
	const framework = `import NextAuth from "next-auth";`
	config := configuration(t, h, "NextAuth")
	if !strings.Contains(config, framework) {
		t.Fatalf("the configuration is for another framework: %s", config)
	}
	// The client replaces the framework, and keeps the configuration.
	config = strings.Replace(config, framework,
		"const NextAuth = (config) => ({ handlers: config });", 1)
	client := startNode(t, "authjs.mjs", authJSModules, map[string]string{"auth.mjs": config},
		map[string]any{"origin": origin, "secret": h.Publisher.SecretKey})
	for _, end := range ends {
		a := client.ask(end.walk(t, h, authorized(h, client.ask("begin").URL), redirect))
		if end.name != "approved" {
			if a.Error == "" || a.Info != nil || a.Claims != nil {
				t.Errorf("%s: %+v", end.name, a)
			}
			continue
		}
		ages, _ := a.Claims["age_equal_or_over"].(map[string]any)
		if a.Error != "" || a.Claims["acr"] != "L1" || ages["18"] != true || a.Info["verified"] != true {
			t.Errorf("approved: %+v", a)
		}
	}
}
