package pages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
)

const openIDIssuer = "https://verify.example/oidc"

func openIDIntegration(registered ...string) operate.Integration {
	return operate.Integration{Integration: integration.Integration{
		ID: "694069ac-4d4e-475f-906b-2f11c5eca7bd", MinimumAge: 21, RedirectURIs: registered}}
}

func clientNamed(t *testing.T, name string) openIDClient {
	t.Helper()
	for _, c := range openIDClients {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no configuration for %s", name)
	return openIDClient{}
}

// contract 44: a configuration has a redirect URI that its product uses.
func TestOpenIDClient_RedirectURI(t *testing.T) {
	for name, c := range map[string]struct {
		client     string
		registered []string
		want       string
	}{
		"the registered one that ends as the product's": {"oauth2-proxy",
			[]string{"https://shop.example/x", "https://b.example/oauth2/callback"},
			"https://b.example/oauth2/callback"},
		"otherwise the usual one at the first site": {"oauth2-proxy",
			[]string{"https://shop.example:8443/x?y=/z", "https://b.example/x"},
			"https://shop.example:8443/oauth2/callback"},
		"an address below the product's path": {"oauth2-proxy",
			[]string{"https://shop.example/oauth2/callback/x"}, "https://shop.example/oauth2/callback"},
		"a site without a path": {"NextAuth", []string{"https://shop.example"},
			"https://shop.example/api/auth/callback/verge"},
		"a realm of any name": {"Keycloak",
			[]string{"https://shop.example/x", "https://id.example/realms/a/broker/verge/endpoint"},
			"https://id.example/realms/a/broker/verge/endpoint"},
		"a realm that is not known": {"Keycloak", []string{"https://shop.example/x"},
			"https://shop.example/realms/REALM/broker/verge/endpoint"},
		"any address for a product without a fixed path": {"Apache", []string{"https://shop.example/x"},
			"https://shop.example/x"},
	} {
		if got := clientNamed(t, c.client).redirectURI(c.registered); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// contract 44: configurations have the integration's values, and no placeholder but that of the secret.
func TestOpenIDClient_Configuration(t *testing.T) {
	for _, c := range openIDClients {
		text := c.configuration(openIDIssuer, openIDIntegration("https://shop.example/back"))
		secret := "SECRET_KEY"
		if c.name == "NextAuth" {
			secret = "process.env.VERGE_SECRET_KEY,"
		}
		for _, want := range []string{openIDIssuer, "694069ac-4d4e-475f-906b-2f11c5eca7bd", secret} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the configuration lacks %s:\n%s", c.name, want, text)
			}
		}
		if strings.Contains(text, "@") {
			t.Errorf("%s: a placeholder has no value:\n%s", c.name, text)
		}
	}
	i := openIDIntegration("https://shop.example/back")
	nextAuth := clientNamed(t, "NextAuth").configuration(openIDIssuer, i)
	if !strings.Contains(nextAuth, `age_equal_or_over["21"] === true`) {
		t.Errorf("the minimum age is not the integration's:\n%s", nextAuth)
	}
}

// contract 44: the text of a redirect URI stays inside of its value.
func TestOpenIDClient_Syntax(t *testing.T) {
	const uri = "https://shop.example/it's/$HOME/@client/oauth2/callback"
	i := openIDIntegration(uri)
	var proxy struct {
		Redirect string `toml:"redirect_url"`
		Client   string `toml:"client_id"`
	}
	text := clientNamed(t, "oauth2-proxy").configuration(openIDIssuer, i)
	err := toml.Unmarshal([]byte(text), &proxy)
	if err != nil || proxy.Redirect != uri || proxy.Client != i.ID {
		t.Errorf("oauth2-proxy: %v %+v", err, proxy)
	}
	var keycloak struct{ Config map[string]string }
	text = clientNamed(t, "Keycloak").configuration(openIDIssuer, i)
	if err = json.Unmarshal([]byte(text), &keycloak); err != nil || keycloak.Config["clientId"] != i.ID {
		t.Errorf("Keycloak: %v %+v", err, keycloak)
	}
}
