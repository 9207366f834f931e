package webhook_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/webhook"
)

// A receiver verifies the raw body before it parses it.
func ExampleVerify() {
	secret := "whsec_from_the_dashboard"
	body := []byte(`{"id":"evt_6f1c8a52-0d8e-4c53-9a53-0d6f2b1f7c11","type":"verification.expired",` +
		`"session_id":"svc_sess_1","data":{"status":"expired"}}`)
	header := map[string][]string{ // an http.Header, in a handler
		"X-Service-Signature": {
			"t=1795212600,v1=9ce0a27c4629337e4126a857045e7fd47643e99b5e2223bbcf8c9aea19c2b354"},
		"X-Service-Timestamp": {"1795212600"},
	}
	now := time.Unix(1795212605, 0) // time.Now(), in a handler

	if err := webhook.Verify(secret, header, body, now, 0); err != nil {
		fmt.Println(err) // return 401
		return
	}
	var event webhook.Event
	if err := json.Unmarshal(body, &event); err != nil {
		fmt.Println(err) // return 400
		return
	}
	fmt.Println(event.SessionID, event.Data.Status)

	err := webhook.Verify(secret, header, append(body, '\n'), now, 0)
	fmt.Println(err.(*webhook.VerifyError).Step)
	// Output:
	// svc_sess_1 expired
	// 5
}

// The service calls Sign. A publisher needs it in the tests of its receiver.
func ExampleSign() {
	fmt.Println(webhook.Sign("whsec_from_the_dashboard", time.Unix(1795212600, 0), []byte(`{}`)))
	// Output: t=1795212600,v1=bd59947360dff8293ee70dbf848d2e35eef12b38e279987371040873b462b624
}
