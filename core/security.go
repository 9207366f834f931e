package core

import (
	"context"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// securityPath is the address of security.txt (RFC 9116).
const securityPath = "/.well-known/security.txt"

// securityLife is how long the file is good. RFC 9116 recommends less than a year.
const securityLife = 180 * 24 * time.Hour

// maxContact limits the bytes of Config.SecurityContact.
const maxContact = 500

// checkContact checks the address for people who have found a weakness. "" is none.
func checkContact(contact string, wrong *problem.List) {
	mailbox, isMail := strings.CutPrefix(contact, "mailto:")
	local, host, _ := strings.Cut(mailbox, "@")
	unreadable := strings.ContainsFunc(contact, func(r rune) bool { return r <= ' ' || r >= 0x7f })
	switch {
	case contact == "":
	case len(contact) > maxContact || unreadable,
		isMail && (local == "" || !strings.Contains(host, ".") || strings.Contains(host, "@")),
		!isMail && weburl.CheckWebhook(contact, false) != "":
		wrong.Add(
			"SecurityContact",
			"%q is no contact for security.txt; use mailto: and an address, such as "+
				"mailto:security@example.com, or an https address of a page",
			contact,
		)
	}
}

// securityText serves security.txt, or returns 404 without a contact.
func (s *Service) securityText(context.Context, *router.Call) (*web.Response, error) {
	if s.contact == "" {
		return nil, web.ErrNoPath
	}
	// It expires at midnight, so the file is the same for a whole day.
	expires := s.host.Now().UTC().Truncate(24 * time.Hour).Add(securityLife)
	body := "Contact: " + s.contact + "\nExpires: " + expires.Format(time.RFC3339) +
		"\nCanonical: " + s.baseURL + securityPath + "\n"
	return &web.Response{Status: 200, Body: []byte(body), Header: web.Header{
		"Content-Type":           {"text/plain; charset=utf-8"},
		"Cache-Control":          {"public, max-age=3600"},
		"X-Content-Type-Options": {"nosniff"},
	}}, nil
}
