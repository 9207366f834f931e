package estimator

import (
	"context"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// plain is for your own estimator. The picture is posted as image/jpeg with a bearer token. The response is
// {"age": 27.3, "deviation": 2.1, "live": true}, or {"face": false} if the picture does not show exactly one
// face.
var plain = profile{
	credential: tokenName + "_file",
	configure: func(s *settings, c method.Config, _ strictjson.Object, wrong *problem.List) {
		rejectSecrets(c, tokenName, wrong)
		if s.token = c.Secrets[tokenName]; !isToken(s.token) {
			wrong.Add("token_file", "the profile plain needs a token of 1 to %d printable ASCII characters "+
				"without spaces", maxToken)
		}
		if len(c.Keys) > 0 {
			wrong.Add("private_key_file", "the profile plain signs nothing; leave it out")
		}
	},
	request: func(_ context.Context, s settings, _ method.Host, picture []byte) (host.FetchRequest, error) {
		return host.FetchRequest{
			URL: s.url,
			Header: map[string]string{
				"Authorization": "Bearer " + s.token,
				"Content-Type":  "image/jpeg",
			},
			Body: picture,
		}, nil
	},
	read: func(response strictjson.Object) (estimate, error) {
		if face, present, ok := response.Bool("face"); !ok {
			return estimate{}, &method.Rejection{Reason: "face_unknown"}
		} else if present && !face {
			return estimate{doubt: method.NoFace}, nil
		}
		if live, present, ok := response.Bool("live"); !ok || !present {
			return estimate{}, &method.Rejection{Reason: "liveness_unknown"}
		} else if !live {
			return estimate{doubt: method.NotLive}, nil
		}
		return numbers(response, "age", "deviation")
	},
}

const maxToken = 4096

func isToken(s string) bool {
	return len(s) > 0 && len(s) <= maxToken &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
