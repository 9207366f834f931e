package api

import (
	"encoding/json"
	"time"

	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/webhook"
)

// exampleSecret signs the examples of events. It is public, and no integration uses it. The base64 decodes to
// "these 32 bytes are for examples!".
const exampleSecret = "whsec_dGhlc2UgMzIgYnl0ZXMgYXJlIGZvciBleGFtcGxlcyE="

// exampleTime is the time of the examples' signatures. It is fixed, so that the bytes are always the same.
var exampleTime = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)

type eventExample struct {
	Event   json.RawMessage   `json:"event"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
}

// eventExamples returns one event of each type as a receiver gets it, as JSON.
func eventExamples() []byte {
	file := struct {
		Secret   string         `json:"secret"`
		Now      int64          `json:"now"`
		Examples []eventExample `json:"examples"`
	}{Secret: exampleSecret, Now: exampleTime.Unix()}
	for n, typ := range webhook.Types() {
		event, _ := webhook.TestEvent(webhook.Head{
			ID:        "evt_" + uuid.Format([16]byte{6: 0x40, 8: 0x80, 15: byte(n + 1)}),
			CreatedAt: exampleTime, PublisherID: "pub_example",
			IntegrationID: "3f0e6a52-6f0a-4c1e-9a53-0d6c2f3b7a11", SessionID: "svc_sess_example",
		}, typ, "L1", 25)
		body := event.Body()
		file.Examples = append(file.Examples, eventExample{Event: body, Body: string(body),
			Headers: webhook.Headers(event.ID, exampleTime, body, exampleSecret)})
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		panic("api: the examples of events: " + err.Error()) // they contain only text
	}
	return append(text, '\n')
}
