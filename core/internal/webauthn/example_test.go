package webauthn_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// Create a passkey, and use it. An authenticator for tests replaces the browser.
func Example() {
	rp, err := webauthn.NewRelyingParty("verify.example", "Verify", "https://verify.example")
	if err != nil {
		fmt.Println(err)
		return
	}
	browser := passkeytest.New("https://verify.example")
	user := webauthn.User{Handle: []byte{0x5a, 0x01, 0xc3, 0x77}, Name: "ada@example", DisplayName: "Ada"}

	challenge := bytes.Repeat([]byte{1}, 32) // random, in a service
	options, err := webauthn.CreationOptions(rp, challenge, user, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	created, err := browser.Create(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, err := webauthn.VerifyRegistration(rp, challenge, created.JSON())
	stored.UserHandle = user.Handle
	fmt.Println("made:", len(stored.ID) > 0, err)

	challenge = bytes.Repeat([]byte{2}, 32)
	options, err = webauthn.RequestOptions(rp, challenge)
	if err != nil {
		fmt.Println(err)
		return
	}
	used, err := browser.Get(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := webauthn.CredentialID(used.JSON())
	fmt.Println("from the stored one:", bytes.Equal(id, stored.ID), err)
	ctx := context.Background()
	assertion, err := webauthn.VerifyAssertion(ctx, signing.Verify, rp, challenge, stored, used.JSON())
	fmt.Printf("used: by %x, counter %d, %v\n", assertion.UserHandle, assertion.Counter, err)

	challenge = bytes.Repeat([]byte{3}, 32)
	_, err = webauthn.VerifyAssertion(ctx, signing.Verify, rp, challenge, stored, used.JSON())
	fmt.Println(err)
	// Output:
	// made: true <nil>
	// from the stored one: true <nil>
	// used: by 5a01c377, counter 0, <nil>
	// webauthn: response rejected: challenge
}
