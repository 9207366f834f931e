// Package testharness runs the whole service inside a test: the core behind a real HTTP server, a Redis in
// this process (miniredis, without installation), the sandbox as the verification method by default, a clock
// that only the test moves, and a webhook receiver with configurable faults.
//
// It is for publishers' code that uses Verge, and for Verge's own tests. Start with [New]. Nil Options work:
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
// # Overview
//
//   - [Harness.Open] is a user's browser with cookies. A [Page] has the forms that the user sees: Submit
//     sends one, Choose chooses a method, Upload sends a picture, and Follow goes to another site and back.
//   - [Options.Providers] and [Options.Estimators] are real methods with scripted providers. [Harness.Offer]
//     adds them to an integration. [Harness.Provider] and [Harness.Estimator] set their responses.
//   - [Harness.Advance] moves the clock, for example to the expiry of a session.
//   - [Harness.Sink] receives and lists the webhooks. [Sink.Next] makes it fail.
//   - [Harness.Start], [Harness.Validate] and [Harness.Reconcile] send requests like the publisher's server,
//     for tests without such a server.
//
// Packages oidctest and estimatortest provide the scripted providers without the harness. Package wallettest
// is a wallet and its issuer. The other folders below this package are for Verge's own tests.
//
// # Guarantees
//
//   - Between the test and the core only three things are simulated: the time, the resolution of names, and
//     the provider that verifies the user. Requests and webhooks are real HTTP.
//   - Only Advance, AdvanceTo and Pause move the time, including the store's. Tasks that are due on the way
//     run at their time before Advance returns. Random values such as the jitter of retries stay random,
//     unless Options.Random is seeded.
//   - Requests of the test may come from any address: the harness acts as a trusted proxy, so the service
//     accepts an X-Forwarded-For header.
//   - Everything ends with the test.
//
// A receiver that verifies signatures must take the time from [Harness.Now], because the service's clock
// does not show today's date.
package testharness
