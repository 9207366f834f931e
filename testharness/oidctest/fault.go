package oidctest

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
)

// Fault replaces the response of an endpoint.
type Fault struct {
	Status   int    // 0: 200
	Type     string // Content-Type. "": application/json
	Body     string
	Fill     int    // appends so many spaces to the body
	Redirect string // sends the caller there with 307
	Hang     bool   // answers nothing until the caller gives up
	Drop     bool   // closes the connection
}

// Fault breaks the endpoint of a path until Heal.
func (p *Provider) Fault(path string, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[path] = f
}

// Heal ends all faults.
func (p *Provider) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.faults)
}

func (f Fault) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.Hang:
		<-r.Context().Done()
		return
	case f.Drop:
		panic(http.ErrAbortHandler)
	case f.Redirect != "":
		http.Redirect(w, r, f.Redirect, http.StatusTemporaryRedirect)
		return
	}
	f.Type = cmp.Or(f.Type, "application/json")
	f.Status = cmp.Or(f.Status, http.StatusOK)
	w.Header().Set("Content-Type", f.Type)
	w.WriteHeader(f.Status)
	fmt.Fprint(w, f.Body, strings.Repeat(" ", f.Fill))
}
