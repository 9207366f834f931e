package estimator

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// yoti is Yoti's API for age estimation and anti-spoofing. The picture is sent as base64 in JSON. The request
// is signed by RSA over method, path, query and body. The path is relative to the address of the API.
var yoti = profile{
	url:        "https://api.yoti.com/ai/v1",
	members:    []string{"sdk_id", "timestamp"},
	credential: keyName + "_file",
	configure: func(s *settings, c method.Config, o strictjson.Object, wrong *problem.List) {
		rejectSecrets(c, "", wrong)
		if s.url = strings.TrimRight(s.url, "/"); strings.Contains(s.url, "?") {
			wrong.Add("url", "it must be the address of the API, which has no query")
		}
		s.sdkID = text(o, "sdk_id", wrong)
		if _, err := uuid.Parse(s.sdkID); err != nil {
			wrong.Add("sdk_id", "it must be the UUID that Yoti has given to the application")
		}
		switch unit := text(o, "timestamp", wrong); unit {
		case "", "s":
		case "ms":
			s.millis = true
		default:
			wrong.Add("timestamp", `%q must be "s" for seconds or "ms" for milliseconds`, unit)
		}
		if !slices.Contains(c.Keys, keyName) {
			wrong.Add("private_key_file", "the profile yoti needs the RSA key that was registered with Yoti")
		}
		s.key = c.KeyName(keyName)
	},
	request: func(ctx context.Context, s settings, h method.Host, picture []byte) (host.FetchRequest, error) {
		nonce, err := uuid.New(h.Random)
		if err != nil {
			return host.FetchRequest{}, err
		}
		at := h.Now().Unix()
		if s.millis {
			at = h.Now().UnixMilli()
		}
		endpoint := yotiEndpoint + "?nonce=" + nonce + "&timestamp=" + strconv.FormatInt(at, 10)
		body := yotiBody(picture)
		signature, err := h.Sign(ctx, s.key, yotiAlgorithm, yotiMessage(endpoint, body))
		if err != nil {
			return host.FetchRequest{}, fmt.Errorf("signing the request: %w", err)
		}
		return host.FetchRequest{
			URL: s.url + endpoint,
			Header: map[string]string{
				"Content-Type":       "application/json",
				"X-Yoti-Auth-Id":     s.sdkID,
				"X-Yoti-Auth-Digest": base64.StdEncoding.EncodeToString(signature),
			},
			Body: body,
		}, nil
	},
	doubt: func(status int, response strictjson.Object) method.Reason {
		if status != 400 {
			return ""
		}
		code, _, _ := response.String("error_code")
		return yotiDoubt(code)
	},
	read: func(response strictjson.Object) (estimate, error) {
		spoofing, _, ok := response.Object("antispoofing")
		if !ok {
			return estimate{}, &method.Rejection{Reason: "liveness_unknown"}
		}
		switch prediction, _, _ := spoofing.String("prediction"); prediction {
		case "real":
		case "fake":
			return estimate{doubt: method.NotLive}, nil
		case "undetermined":
			return estimate{doubt: method.Unsure}, nil
		default:
			return estimate{}, &method.Rejection{Reason: "liveness_unknown"}
		}
		age, _, ok := response.Object("age")
		if !ok {
			return estimate{}, &method.Rejection{Reason: "age_missing"}
		}
		return numbers(age, "age", "st_dev")
	},
}

const (
	yotiEndpoint  = "/age-antispoofing"
	yotiAlgorithm = "RS256"
)

// yotiDoubt returns the reason for an error about the picture. All others are about the request: "".
func yotiDoubt(code string) method.Reason {
	switch code {
	case "FACE_NOT_FOUND", "MULTIPLE_FACES", "FACE_BOX_TOO_SMALL", "FACE_TO_IMAGE_RATIO_TOO_LOW",
		"FACE_TO_IMAGE_RATIO_TOO_HIGH", "INSUFFICIENT_AREA_AROUND_THE_FACE":
		return method.NoFace
	case "IMAGE_TOO_BRIGHT", "IMAGE_TOO_DARK":
		return method.Unsure
	}
	return ""
}

// yotiBody writes the request's JSON. Base64 needs no escapes.
func yotiBody(picture []byte) []byte {
	const head, tail = `{"img":"`, `","metadata":{"device":"unknown"}}`
	body := make([]byte, 0, len(head)+base64.StdEncoding.EncodedLen(len(picture))+len(tail))
	body = append(body, head...)
	body = base64.StdEncoding.AppendEncode(body, picture)
	return append(body, tail...)
}

// yotiMessage returns the signed message: method, path with query, and the body in base64.
func yotiMessage(endpoint string, body []byte) []byte {
	message := make([]byte, 0, len("POST&&")+len(endpoint)+base64.StdEncoding.EncodedLen(len(body)))
	message = append(message, "POST&"...)
	message = append(message, endpoint...)
	message = append(message, '&')
	return base64.StdEncoding.AppendEncode(message, body)
}
