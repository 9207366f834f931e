package config

import "testing"

func TestSharePort(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"127.0.0.1:8081", "127.0.0.1:8081", true},
		{"127.0.0.1:8081", "127.0.0.1:8082", false},
		{":8081", "127.0.0.1:8081", true},
		{"127.0.0.1:8081", "0.0.0.0:8081", true},
		{"[::]:8081", "127.0.0.1:8081", true},
		{"localhost:8081", "127.0.0.1:8081", true},
		{"[::ffff:127.0.0.1]:8081", "127.0.0.1:8081", true},
		{"10.0.0.1:http", "10.0.0.1:80", true},
		{"10.0.0.1:80", "10.0.0.2:80", false},
		{"127.0.0.1:80", "[::1]:80", false},
		{"127.0.0.1:0", ":0", false},
	} {
		if got := sharePort(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

func TestIsPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": false, "127.9.9.9:1": false, "[::1]:1": false, "[::ffff:127.0.0.1]:1": false,
		"localhost:1": false, "10.0.0.1:1": false, "192.168.1.1:1": false, "172.16.0.1:1": false,
		"[fd00::1]:1": false, "169.254.1.1:1": false, "[::ffff:10.0.0.1]:1": false,
		":1": true, "0.0.0.0:1": true, "[::]:1": true, "203.0.113.1:1": true, "172.32.0.1:1": true,
		"[2001:db8::1]:1": true, "ops.example.com:1": true,
	} {
		if got := isPublic(addr); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}
