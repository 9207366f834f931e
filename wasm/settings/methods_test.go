package settings

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/wasm/abi"
)

// What an operator configures for a method arrives in a guest, by way of the configuration's JSON (contract
// 41).
func TestMethodsComeBack(t *testing.T) {
	full := method.Config{
		Name: "bankid", Kind: "oidc", Level: "L2", Title: "Bank ID",
		Titles:   map[string]string{"de": "Bankausweis"},
		Settings: json.RawMessage(`{"issuer":"https://id.example"}`),
		Secrets:  map[string]string{"client_secret": "hush"},
		Keys:     []string{"client", "client-next"},
	}
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		// A new member must be transferred as well.
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != (name == "Dev") {
			t.Errorf("the test does not set %s, or sets what is the service's", name)
		}
	}
	for name, list := range map[string][]method.Config{
		"two":  {full, {Name: "sandbox", Kind: "sandbox"}},
		"none": nil,
	} {
		text, err := json.Marshal(abi.Config{BaseURL: "x", Methods: packMethods(list)})
		if err != nil {
			t.Fatal(err)
		}
		c, err := abi.ReadConfig(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if back := unpackMethods(c.Methods); !reflect.DeepEqual(back, list) {
			t.Errorf("%s: %+v\ncame back as %+v", name, list, back)
		}
	}
	packed := packMethods([]method.Config{full})
	packed[0].Secrets["client_secret"], packed[0].Keys[0] = "changed", "changed"
	if full.Secrets["client_secret"] != "hush" || full.Keys[0] != "client" {
		t.Errorf("what was packed shares memory with the configuration: %+v", full)
	}
}
