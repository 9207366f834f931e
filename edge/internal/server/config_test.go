package server

import (
	"math"
	"net/netip"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	everybody := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::/0")}
	for member, c := range map[string]Config{
		"":               {},
		"TrustedProxies": {TrustedProxies: everybody},
		"ProxyHeader":    {ProxyHeader: "X-Real-Ip"},
		"MaxConns":       {MaxConns: -1},
		"MaxConnsPerIP":  {MaxConnsPerIP: -1},
		"MaxConcurrent":  {MaxConcurrent: -1},
		"DrainDelay":     {DrainDelay: -1},
		"DrainTimeout":   {DrainTimeout: -1},
	} {
		wrong := c.Validate()
		if member == "" && wrong != nil || member != "" && (len(wrong) != 1 || wrong[0].Member != member) {
			t.Errorf("%+v: %v, want one problem with %q", c, wrong, member)
		}
	}
	for _, c := range []Config{{ProxyHeader: "Forwarded"}, {ProxyHeader: "X-Forwarded-For"},
		{TrustedProxies: everybody[:1]}, {MaxConns: ConnsFor(OpenFiles())}, {DrainDelay: time.Second}} {
		if wrong := c.Validate(); wrong != nil {
			t.Errorf("%+v: %v", c, wrong)
		}
	}
	// If the system does not report its limit of open files, any number is valid.
	if wrong := (Config{MaxConns: math.MaxInt}).Validate(); (wrong == nil) != (OpenFiles() == 0) {
		t.Errorf("as many connections as can be counted: %v", wrong)
	}
}

// The timeout of a webhook test covers its five exchanges and some overhead.
func TestAdminTimeoutFor(t *testing.T) {
	for _, exchange := range []time.Duration{time.Second, 2 * time.Minute} {
		if got := AdminTimeoutFor(exchange); got <= 5*exchange {
			t.Errorf("%s for five exchanges of %s", got, exchange)
		}
	}
}
