package main

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/verge-id/verge/testharness/kit"
	"github.com/verge-id/verge/testharness/passkeytest"
)

const (
	passkeyUse   = "passkey" // its lines, and the integration that takes passkeys
	passkeySize  = 2500      // about the bytes of the form, with the flow token and the step
	mostPasskeys = 1000      // forms that are made for a round, before its clock starts
)

// passkeyForm is what the page's script posts.
type passkeyForm struct {
	action string
	fields url.Values
}

// passkeys measures the forms by which a passkey completes sessions, from the POST to its answer. All of them
// are of one passkey, which counts nothing, as those of phones.
func (s *methodService) passkeys(length time.Duration, pid int) (cost, error) {
	device := passkeytest.New("https://" + benchHost)
	b := kit.Browser{Client: s.client}
	page, err := s.passkeyPage(&b)
	if err == nil {
		page, err = b.Submit(page, "approve")
	}
	if err != nil {
		return cost{}, err
	}
	made, err := answered(page, func(o []byte) (passkeytest.Answer, error) { return device.Create(o) })
	if err == nil {
		err = s.postPasskey(made)
	}
	if err != nil {
		return cost{}, fmt.Errorf("making a passkey: %w", err)
	}
	forms := make(chan passkeyForm, mostPasskeys)
	for range cap(forms) {
		page, err := s.passkeyPage(&kit.Browser{Client: s.client})
		if err != nil {
			return cost{}, err
		}
		form, err := answered(page, func(o []byte) (passkeytest.Answer, error) { return device.Get(o) })
		if err != nil {
			return cost{}, err
		}
		forms <- form
	}
	close(forms)
	return measured(length, pid, func() (bool, error) {
		form, more := <-forms
		if !more {
			return false, nil
		}
		return true, s.postPasskey(form)
	})
}

// passkeyPage is the first page of a new session that takes passkeys.
func (s *methodService) passkeyPage(b *kit.Browser) (*kit.Shown, error) {
	redirect, err := s.start(passkeyUse)
	if err != nil {
		return nil, err
	}
	return b.Open(redirect)
}

// answered is the page's form with what a device says to its options.
func answered(
	page *kit.Shown, say func(options []byte) (passkeytest.Answer, error),
) (f passkeyForm, err error) {
	options := ""
	if f.action, f.fields, options, err = page.Passkey(); err != nil {
		return f, err
	}
	answer, err := say([]byte(options))
	f.fields.Set("credential", string(answer.JSON()))
	return f, err
}

func (s *methodService) postPasskey(f passkeyForm) error {
	status, body, err := s.post(f.action, f.fields)
	if err == nil && status != http.StatusSeeOther {
		err = fmt.Errorf("a passkey: status %d: %s", status, body)
	}
	return err
}
