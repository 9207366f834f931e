// Package webhook has the events that the service sends to publishers, their signature, and the rules
// of their delivery. Everything in it is a pure function.
//
// A publisher's server that is written in Go needs two things from it: Verify, for every request that
// arrives at its webhook address, and Event, to read the body after Verify has returned nil.
//
//	func receive(w http.ResponseWriter, r *http.Request) {
//		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MaxBody))
//		if err != nil {
//			http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
//			return
//		}
//		if err := webhook.Verify(secret, r.Header, body, time.Now(), 0); err != nil {
//			http.Error(w, err.Error(), http.StatusUnauthorized)
//			return
//		}
//		var event webhook.Event
//		if err := json.Unmarshal(body, &event); err != nil {
//			http.Error(w, "not an event", http.StatusBadRequest)
//			return
//		}
//		remember(event.IdempotencyKey, event) // does nothing for a key it knows
//		w.WriteHeader(http.StatusNoContent)
//	}
//
// In another language, use a library of Standard Webhooks (contract 51), and test your code with
// testdata/standard_vectors.json. Or follow the description of Verify, and test with
// testdata/signature_vectors.json. For each request that file names the step at which a receiver must
// reject it.
//
// # What a receiver can rely on
//
// An event is posted once, unless something fails: an answer that is lost, a time-out, a crash on
// either side. Then it is posted again, so deduplicate by IdempotencyKey. Every attempt of an event
// carries the same ID and exactly the same bytes. Only the headers with signatures and times are new,
// because t is the time of the attempt.
//
// Events arrive in any order, and one event of a session may be given up while another arrives.
// Correlate by SessionID. Let a terminal event (completed, failed, expired) win over a started one that
// comes later.
//
// A 2xx answer ends the delivery. So does a 4xx answer, because it says that the event is unwanted.
// After any other result the event is tried again on the Schedule. Answer first and work later: a slow
// answer counts as no answer.
//
// Later releases may add members to events under the same SchemaVersion. Ignore members that you do not
// know.
//
// # What it does not do
//
// Verify keeps no record of requests. If the same request is sent again within the tolerance, it
// verifies again. Deduplication makes that harmless.
//
// This package imports nothing else of the service, so that a publisher who imports it gets nothing
// else.
package webhook
