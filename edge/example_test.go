package edge_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/wait"
)

// This program embeds Verge, with a store in memory, a publisher with one integration, and the sandbox,
// which verifies no user.
func Example() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	ring, err := keyring.Generate(rand.Reader, time.Now())
	check(err)
	verge, err := edge.Open(context.Background(), edge.Config{
		Core:    core.Config{BaseURL: "http://" + listener.Addr().String(), Dev: true},
		Store:   edge.Store{KV: memory.New(memory.Config{})},
		Keyring: ring,
		Public:  listener,
	})
	check(err)
	check(verge.Apply(context.Background(), integration.Site{
		Publishers: []integration.SitePublisher{{ID: "pub_shop", Name: "Shop"}},
		Integrations: []integration.SiteIntegration{{ID: "5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a01",
			Publisher: "pub_shop", Name: "Age check", Level: "L1", ChallengeAge: 25, Method: "sandbox",
			WebhookOff: true}},
	}))
	key, _, err := verge.Directory().CreateKey(context.Background(), "pub_shop", "", nil)
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- verge.Run(ctx) }()

	fmt.Println(start("http://"+listener.Addr().String(), key))
	stop()
	fmt.Println(wait.For(ended))
	// Output:
	// 200 OK
	// <nil>
}

// start asks for a session, as the publisher's server does.
func start(at, key string) (status string) {
	req, err := http.NewRequest("POST", at+"/api/v1/verify/start", strings.NewReader(`{
		"integration_id": "5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a01", "state": "q7Zk1v0mXo2hT5c8",
		"callback_url": "https://shop.example/return", "external_user_id": "customer-4711"}`))
	check(err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	check(err)
	check(answer.Body.Close())
	return answer.Status
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
