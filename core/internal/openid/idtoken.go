package openid

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
)

// factsOf returns the claims about a verification as members of JSON, for an ID token and for userinfo. There
// are no others.
func factsOf(g *token.Grant, level session.Level) string {
	return `"sub":"` + subjectOf(g.Session) + `","auth_time":` + seconds(g.Completed.Time()) +
		`,"acr":"` + level.String() + `","age_equal_or_over":{"` + strconv.Itoa(g.Age) +
		`":true},"session_id":"` + g.Session + `"}`
}

func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// subjectOf returns the subject of a session. No two sessions have the same one, so clients cannot recognise
// a user by it.
func subjectOf(session string) string { return encode(hashOf("verge/v1/sub\x00" + session)[:16]) }

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

var errNoSign = errors.New("openid: this host signs nothing")

// sign returns the ID token of a code for a client, in the form of a compact JWS.
func (p *Provider) sign(ctx context.Context, client, nonce, facts string, now time.Time) (string, error) {
	if p.Sign == nil {
		return "", errNoSign
	}
	if nonce != "" {
		text, err := json.Marshal(nonce)
		if err != nil {
			return "", err
		}
		facts = `"nonce":` + string(text) + "," + facts
	}
	message := encode([]byte(`{"alg":"ES256","kid":"`+p.Keys[0].id+`","typ":"JWT"}`)) + "." +
		encode([]byte(`{"iss":"`+p.BaseURL+Path+`","aud":"`+client+`","exp":`+seconds(now.Add(grantLife))+
			`,"iat":`+seconds(now)+`,`+facts))
	signature, err := p.Sign(ctx, KeyName(1), "ES256", []byte(message))
	if err != nil {
		return "", fmt.Errorf("openid: ID token not signed: %w", err)
	}
	return message + "." + encode(signature), nil
}
