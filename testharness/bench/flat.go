package main

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/token"
)

// flat sends requests of every kind through one guest, and prints its linear
// memory and the process's heap on the way. It takes minutes, so it runs only if
// it is asked for by its name.
func flat(module []byte, requests int) error {
	h, err := newHosted(module, 1, func(k kv.KV) kv.KV { return forgetful{k} })
	if err != nil {
		return err
	}
	defer h.Close()
	began := time.Now()
	for i, next := 1, 1000; i <= requests; i++ {
		if err := h.one(i); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if i == next {
			fmt.Printf("%8d requests through one guest: %5.2f MiB of linear memory, "+
				"%6.2f MiB of heap in the host, %.0f s\n", i,
				float64(h.Stats().Memory)/(1<<20), float64(heapInUse())/(1<<20), time.Since(began).Seconds())
			next *= 10
		}
	}
	return nil
}

// forgetful is a store that keeps no commit, so that only the engine can grow.
type forgetful struct{ kv.KV }

// Commit implements kv.KV.
func (forgetful) Commit(context.Context, kv.Tx) error { return nil }

// one asks for a start, a validation, a reconciliation, or something that is refused.
func (h *hosted) one(i int) error {
	text, err := h.session()
	if err != nil {
		return err
	}
	switch i % 5 {
	case 0:
		return h.ask(200, "POST", api.StartPath, startBody)
	case 1:
		// A store that keeps nothing checks nothing: any outcome will do.
		claims := token.ResultClaims{Session: text, Completed: token.At(time.Now()), Outcome: "any"}
		result, err := token.SealResult(h.ring, claims)
		if err != nil {
			return err
		}
		return h.ask(200, "POST", api.ValidatePath, `{"result_token":"`+result+`"}`)
	case 2:
		return h.ask(200, "GET", api.SessionsPath+text, "")
	case 3:
		return h.ask(400, "POST", api.StartPath, `{"integration_id":`)
	}
	return h.ask(404, "GET", fmt.Sprintf("/nowhere/%d", i), "")
}
