package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/kit"
	"github.com/verge-id/verge/testharness/wallettest"
)

// documents is who issues the documents of the measured wallets.
var documents = sync.OnceValue(func() *wallettest.Issuer {
	return wallettest.NewIssuer(wallettest.IssuerConfig{})
})

// walletConfig is a method that asks a wallet.
func walletConfig(name string, encrypted bool) method.Config {
	settings, err := json.Marshal(map[string]any{"profile": "eu-av", "encrypted": encrypted,
		"trust_anchors": []string{string(documents().PEM())}})
	if err != nil {
		panic(err) // texts and a flag alone
	}
	return method.Config{Name: name, Kind: "openid4vp", Settings: settings}
}

// mostAnswers limits how many answers are made for a round, before its clock starts.
const mostAnswers = 600

// walletSize is about the bytes of a wallet's answer.
const walletSize = 1700

// wallets measures answers of wallets, from the POST to its answer.
func (s *methodService) wallets(name string) func(time.Duration, int) (cost, error) {
	return func(length time.Duration, pid int) (cost, error) {
		answers := make(chan wallettest.Message, mostAnswers)
		for range cap(answers) {
			m, err := s.walletAnswer(name)
			if err != nil {
				return cost{}, err
			}
			answers <- m
		}
		close(answers)
		return measured(length, pid, func() (bool, error) {
			m, more := <-answers
			if !more {
				return false, nil
			}
			status, body, err := s.post(m.URL, m.Form)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("a wallet's answer: status %d: %s", status, body)
			}
			return true, err
		})
	}
}

// walletAnswer has a wallet make an answer to a session that waits for one.
func (s *methodService) walletAnswer(name string) (m wallettest.Message, err error) {
	redirect, err := s.start(name)
	if err != nil {
		return m, err
	}
	b := kit.Browser{Client: s.client}
	page, err := b.Open(redirect)
	if err == nil {
		page, err = b.Submit(page, "begin")
	}
	if err != nil {
		return m, err
	}
	wallet := wallettest.New(documents())
	r, err := wallet.Open(context.Background(), page.Wallet())
	if err != nil {
		return m, err
	}
	return wallet.Present(r)
}

func (s *methodService) post(address string, form url.Values) (status int, body []byte, err error) {
	req, err := http.NewRequest("POST", address, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(req)
}

// bareForm measures a handler that reads a form of that many bytes.
func (s *methodService) bareForm(size int) func(time.Duration, int) (cost, error) {
	return func(length time.Duration, pid int) (cost, error) { return s.bareFormOf(size, length, pid) }
}

func (s *methodService) bareFormOf(size int, length time.Duration, pid int) (cost, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return cost{}, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ParseForm() != nil || r.PostForm.Get("answer") == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, "{}")
	})}
	go server.Serve(l)
	defer server.Close()
	form := url.Values{"answer": {strings.Repeat("x", size)}}
	return measured(length, pid, func() (bool, error) {
		status, _, err := s.post("http://"+l.Addr().String()+"/", form)
		if err == nil && status != http.StatusOK {
			err = errors.New("the bare handler refuses the form")
		}
		return true, err
	})
}
