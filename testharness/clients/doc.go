// Package clients holds the description of the API against the tools that publishers use: linters, and
// generators of clients. Its tests generate clients in Go and TypeScript, compile them, and walk a
// verification with each.
//
// Clients of the OpenID provider are libraries and proxies that publishers use. If the console's page has a
// configuration for one, the test runs that.
//
// A client of the API is a program of testdata. It reads BASE_URL, SECRET_KEY and INTEGRATION_ID from its
// environment, prints the redirect_url of the session that it starts, reads the URL at which the browser came
// back, and prints a report as JSON.
package clients
