// Package testharness runs the whole service inside a test: the core in front
// of a real HTTP server, a Redis in this process (miniredis: nothing is to be
// installed), the sandbox as the one method of verification, a clock that
// stands still until the test moves it, and a webhook receiver that misbehaves
// on demand.
//
// It is for Verge's own tests and for publishers whose code talks to Verge.
// Begin with New; nil Options work:
//
//	func TestCheckout(t *testing.T) {
//		h := testharness.New(t, nil)
//		shop := newShop(h.BaseURL, h.Publisher.SecretKey) // the code under test
//
//		started := shop.AskForAge()
//		back := h.Open(started.RedirectURL).Submit("approve").Callback
//		shop.Return(back.URL)
//		h.Settle() // now its webhooks are there
//	}
//
// # What is promised
//
//   - Nothing is faked between the test and the core but time, name
//     resolution and the provider: requests and webhooks are real HTTP.
//   - Time moves by Advance alone, the store's with it, and whatever falls due
//     on the way runs at its own instant before Advance returns. What is random
//     stays so, the jitter of retries for one, unless Options.Random is seeded.
//   - Requests of the test may come from any address: the harness stands in
//     for a trusted proxy, so an X-Forwarded-For header is believed.
//   - Everything ends with the test.
//
// A receiver of the code under test that verifies signatures has to ask
// Harness.Now for the time: it is not today in there.
package testharness
