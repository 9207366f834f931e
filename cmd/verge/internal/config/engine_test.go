package config

import "testing"

func TestEngine_CacheDirectory(t *testing.T) {
	for _, c := range []struct{ xdg, home, want string }{
		{"/cache", "/home/v", "/cache/verge/modules"},
		{"", "/home/v", "/home/v/.cache/verge/modules"},
		{"relative", "/home/v", "/home/v/.cache/verge/modules"}, // XDG: ignore a relative path
		{"", "", ""},
	} {
		got := defaultModuleCache(func(name string) (string, bool) {
			v := map[string]string{"XDG_CACHE_HOME": c.xdg, "HOME": c.home}[name]
			return v, v != ""
		})
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
