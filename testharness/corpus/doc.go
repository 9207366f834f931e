// Package corpus records the responses, store calls and log lines of the core for some thousands of requests,
// valid and invalid. The transcripts in testdata are compared with every engine. Each is one recording of one
// service, packed by gzip; `verge replay` shows the first difference of an engine from it.
//
// They change with each response and effect of the core. The test shows the first line that differs. Read it
// before you run `go generate` here and commit the files.
package corpus

//go:generate go test -run ^TestRecordedAnew$ . -update
