package testhost

import "github.com/verge-id/verge/core/method"

// Kind returns a kind whose only method is m.
func Kind(name string, m method.Method, sandbox bool) method.Kind {
	return method.Kind{Name: name, Level: "L2", Sandbox: sandbox, Returns: []string{"code", "error"},
		Open: func(method.Config, method.Host) (method.Method, error) { return m, nil }}
}

// Catalog returns a catalog of a method of each kind, with the kind's name.
func Catalog(kinds ...method.Kind) method.Catalog {
	var methods []method.Config
	for _, k := range kinds {
		methods = append(methods, method.Config{Name: k.Name, Kind: k.Name})
	}
	catalog, wrong := method.NewCatalog(kinds, methods, false)
	if err := wrong.Err(); err != nil {
		panic(err)
	}
	return catalog
}

// Opened returns the methods of a catalog, opened on the host.
func (h *Host) Opened(catalog method.Catalog) map[string]method.Opened {
	opened, err := catalog.Open(method.Host{Now: h.Now, Random: h.Random, Fetch: h.Fetch, Sign: h.Sign,
		Verify: h.Verify, Measure: h.Measure, Log: h.Log})
	if err != nil {
		panic(err)
	}
	return opened
}
