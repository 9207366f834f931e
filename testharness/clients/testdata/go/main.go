// A publisher's server in Go, with the client that oapi-codegen generates.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"

	"publisher/verge"
)

func main() {
	log.SetFlags(0)
	ctx := context.Background()
	secret := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("SECRET_KEY"))
		return nil
	}
	client, err := verge.NewClientWithResponses(os.Getenv("BASE_URL"), verge.WithRequestEditorFn(secret))
	must(err)

	var request verge.StartRequest
	must(request.IntegrationId.UnmarshalText([]byte(os.Getenv("INTEGRATION_ID"))))
	request.CallbackUrl = "https://shop.example/return"
	state := "s-1"
	request.State = &state
	started, err := client.StartVerificationWithResponse(ctx, &verge.StartVerificationParams{}, request)
	must(err)
	if started.JSON200 == nil {
		log.Fatalf("start: %s", started.Body)
	}
	fmt.Println(started.JSON200.RedirectUrl)

	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	back, err := url.Parse(line[:len(line)-1])
	must(err)
	if back.Query().Get("state") != state {
		log.Fatal("the state is another")
	}
	exchange := verge.ValidateRequest{ResultToken: back.Query().Get("result_token")}
	result, err := client.ValidateResultWithResponse(ctx, &verge.ValidateResultParams{}, exchange)
	must(err)
	if result.JSON200 == nil {
		log.Fatalf("validate: %s", result.Body)
	}
	again, err := client.ValidateResultWithResponse(ctx, &verge.ValidateResultParams{}, exchange)
	must(err)
	if again.JSON409 == nil {
		log.Fatalf("validate again: %s", again.Body)
	}
	session, err := client.GetSessionWithResponse(ctx, started.JSON200.SessionId, &verge.GetSessionParams{})
	must(err)
	if session.JSON200 == nil {
		log.Fatalf("reconcile: %s", session.Body)
	}

	examples, err := client.GetEventExamplesWithResponse(ctx)
	must(err)
	if examples.JSON200 == nil {
		log.Fatalf("examples: %s", examples.Body)
	}
	var events []string
	for _, e := range examples.JSON200.Examples {
		one, err := e.Event.ValueByDiscriminator()
		must(err)
		switch e := one.(type) {
		case verge.StartedEvent:
			events = append(events, fmt.Sprint("started ", e.Data.Status))
		case verge.CompletedEvent:
			events = append(events, fmt.Sprint("completed ", e.Data.Result.Level))
		case verge.FailedEvent:
			events = append(events, fmt.Sprint("failed ", e.Data.Failure.Code))
		case verge.ExpiredEvent:
			events = append(events, fmt.Sprint("expired ", e.Data.Status))
		case verge.CancelledEvent:
			events = append(events, fmt.Sprint("cancelled ", e.Data.Status))
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"verified": result.JSON200.Verified, "level": result.JSON200.Level,
		"age":   result.JSON200.ChallengeAge,
		"again": again.JSON409.Code, "status": session.JSON200.Status, "events": events,
	}))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
