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
// # Guarantees for a receiver
//
// An event is posted once, unless an attempt fails, for example by a lost response, a time-out, or a crash on
// either side. Then it is posted again, so deduplicate by IdempotencyKey. Every attempt of an event has the
// same ID and exactly the same bytes. Only the headers with signatures and times differ, because t is the
// time of the attempt.
//
// Events arrive in any order, and one event of a session may fail while another arrives. Correlate by
// SessionID. A terminal event (completed, failed, expired) takes precedence over a started event that arrives
// later.
//
// A 2xx response ends the delivery. A 4xx response ends it as well, because it rejects the event. After any
// other result the event is retried on the Schedule. Respond first and process the event afterwards: a slow
// response counts as no response.
//
// Later releases may add fields to events under the same SchemaVersion. Ignore unknown fields.
//
// # Limits
//
// Verify keeps no record of requests. If the same request is sent again within the tolerance, it
// verifies again. Deduplication makes that harmless.
//
// This package imports nothing else of the service, so that a publisher who imports it gets nothing
// else.
package webhook
