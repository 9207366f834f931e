package etcd

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for url, want := range map[string]address{
		"etcd://localhost":  {endpoints: []string{"localhost:2379"}, prefix: "verge/"},
		"etcd://localhost/": {endpoints: []string{"localhost:2379"}, prefix: "verge/"},
		"etcds://a:1,b.example:2,c/x/y/": {
			tls:       true,
			endpoints: []string{"a:1", "b.example:2", "c:2379"},
			prefix:    "x/y/",
		},
		"etcd://[::1]:5,[::2]": {
			endpoints: []string{"[::1]:5", "[::2]:2379"},
			prefix:    "verge/",
		},
		"etcd://root:p%40ss%3A%2F@10.0.0.1:2379/%7Ez": {
			user:      "root",
			password:  "p@ss:/",
			endpoints: []string{"10.0.0.1:2379"},
			prefix:    "~z/",
		},
	} {
		got, err := parseURL(url)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", url, got, err, want)
		}
	}
	for url, want := range map[string]string{
		"http://a":              "etcd://",
		"etcd:a":                "etcd://",
		"etcd://":               "place 1",
		"etcd:///verge":         "place 1",
		"etcd://a,":             "place 2",
		"etcd://a:0":            "place 1",
		"etcd://a:70000":        "place 1",
		"etcd://a:01":           "place 1",
		"etcd://a:1:2":          "place 1",
		"etcd://::1":            "place 1",
		"etcd://[x]:1":          "place 1",
		"etcd://a b":            "place 1",
		"etcd://user@a":         "password",
		"etcd://:secret@a":      "password",
		"etcd://user:secr%zz@a": "percent",
		"etcd://a/x%20y":        "prefix",
		"etcd://a/%zz":          "prefix",
		"etcd://a/p?tls=1":      "query",
	} {
		_, err := parseURL(url)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that says %q", url, err, want)
		} else if strings.Contains(err.Error(), "secr") {
			t.Errorf("%s: the error repeats the password: %v", url, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{
		"etcd://localhost",
		"etcds://u:p@a:1,[::1]:2/x/y",
		"etcd://a/%41",
		"etcd://@/",
		"etcd://u:%zz@a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseURL(s)
		if err != nil {
			return
		}
		if len(a.endpoints) == 0 || !strings.HasSuffix(a.prefix, "/") ||
			(a.user == "") != (a.password == "") {
			t.Errorf("%q gives %+v", s, a)
		}
		for i := range len(a.prefix) {
			if a.prefix[i] <= ' ' || a.prefix[i] > '~' {
				t.Errorf("%q gives the prefix %q", s, a.prefix)
			}
		}
	})
}
