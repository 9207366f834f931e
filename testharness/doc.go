// Package testharness runs the whole service inside a test: the core behind a
// real HTTP server, a Redis in this process (miniredis, so that nothing has to
// be installed), the sandbox as the method of verification unless Options say
// otherwise, a clock that moves only when the test moves it, and a webhook
// receiver that misbehaves on demand.
//
// It is for publishers whose code talks to Verge, and for Verge's own tests.
// Begin with New. Nil Options work:
//
//	func TestCheckout(t *testing.T) {
//		h := testharness.New(t, nil)
//		shop := newShop(h.BaseURL, h.Publisher.SecretKey) // the code under test
//
//		started := shop.AskForAge()
//		back := h.Open(started.RedirectURL).Submit("approve").Callback
//		shop.Return(back.URL)
//		h.Settle() // now its webhooks have arrived
//	}
//
// # What to use
//
//   - Harness.Open is a user's browser, which keeps cookies. A Page has the
//     forms that the user sees, and Submit clicks one. Choose chooses a method,
//     Upload sends a picture, and Follow goes on to another site and back.
//   - Options.Providers and Options.Estimators are real methods, whose other
//     side the harness plays. Harness.Offer gives them to an integration.
//     Harness.Provider and Harness.Estimator script what they answer.
//   - Harness.Advance moves the clock, so a session expires at once.
//   - Harness.Sink receives the webhooks and says what came. Sink.Next makes
//     it fail.
//   - Harness.Start, Validate and Reconcile ask as the publisher's server
//     would, for tests that have no such server.
//
// Packages oidctest and estimatortest are these other sides, for use without the harness.
// Package wallettest is a wallet and its issuer. The other folders below this
// package are for Verge's own tests.
//
// # What is promised
//
//   - Between the test and the core only three things are faked: the time, the
//     resolution of names, and the other side that verifies the user. Requests and
//     webhooks are real HTTP.
//   - Only Advance, AdvanceTo and Pause move the time, the store's included.
//     Whatever falls due on the way runs at its own instant before Advance
//     returns. What is random stays random, such as the jitter of retries,
//     unless Options.Random is seeded.
//   - Requests of the test may come from any address: the harness stands in
//     for a trusted proxy, so the service believes an X-Forwarded-For header.
//   - Everything ends with the test.
//
// A receiver that verifies signatures has to take the time from Harness.Now,
// because the service's clock does not show today's date.
package testharness
