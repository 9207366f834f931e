package config

import "testing"

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
