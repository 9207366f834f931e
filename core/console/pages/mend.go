package pages

import (
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/webhook"
)

// mending says what a probe shows, and how a receiver that fails it is mended.
type mending struct {
	title string // what the receiver has to do
	sent  string // what was sent
	mend  string // what is most often wrong
	code  []snippet
}

// snippet is a few lines of one language.
type snippet struct{ language, code string }

// goVerify is the same for every refusal: the package that publishers import makes all of the checks.
const goVerify = "// webhook.Verify makes this check, and the others.\n" +
	"if err := webhook.Verify(secret, r.Header, raw, time.Now(), 0); err != nil {\n" +
	"\thttp.Error(w, err.Error(), http.StatusUnauthorized)\n\treturn\n}"

// mendings has one entry for each probe (contract 29). The lines assume raw, the bytes of the body as they came;
// secret; and header, the request's headers by name.
var mendings = map[string]mending{
	webhook.ProbeGood: {
		title: "Accept what is signed correctly",
		sent:  "An event with a good signature.",
		mend: "The secret is another one than the receiver has, or the signature is computed over a body that was " +
			"parsed before. It covers the time, a full stop, and the bytes of the body as they came.",
		code: []snippet{
			{"Node", "const expected = crypto.createHmac('sha256', secret)\n" +
				"  .update(t + '.').update(raw).digest('hex');  // raw: Buffer of express.raw()"},
			{"Python", "expected = hmac.new(secret.encode(), t.encode() + b'.' + raw,\n" +
				"                    hashlib.sha256).hexdigest()  # raw: request.get_data()"},
			{"PHP", "$raw = file_get_contents('php://input');\n" +
				"$expected = hash_hmac('sha256', $t . '.' . $raw, $secret);"},
			{"Go", "raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MaxBody))\n" +
				"err = webhook.Verify(secret, r.Header, raw, time.Now(), 0) // nil: accept"},
		},
	},
	webhook.ProbeBadSignature: {
		title: "Refuse a wrong signature",
		sent:  "An event whose signature has one wrong digit, the last one.",
		mend:  "The receiver does not compare the signature, or compares only its beginning. Compare all of it, in constant time.",
		code: []snippet{
			{"Node", "const a = Buffer.from(v1, 'hex'), b = Buffer.from(expected, 'hex');\n" +
				"if (a.length !== b.length || !crypto.timingSafeEqual(a, b)) return res.sendStatus(401);"},
			{"Python", "if not hmac.compare_digest(v1, expected):\n    return '', 401"},
			{"PHP", "if (!hash_equals($expected, $v1)) { http_response_code(401); exit; }"},
			{"Go", goVerify},
		},
	},
	webhook.ProbeStaleTimestamp: {
		title: "Refuse an old event",
		sent:  "An event that was signed correctly ten minutes ago.",
		mend: "The receiver does not look at the time, so whoever has recorded an event can send it again. " +
			"Refuse a time that is more than 300 seconds away.",
		code: []snippet{
			{"Node", "if (Math.abs(Date.now() / 1000 - Number(t)) > 300) return res.sendStatus(401);"},
			{"Python", "if abs(time.time() - int(t)) > 300:\n    return '', 401"},
			{"PHP", "if (abs(time() - (int) $t) > 300) { http_response_code(401); exit; }"},
			{"Go", goVerify},
		},
	},
	webhook.ProbeDifferingTimestamp: {
		title: "Refuse two different times",
		sent:  "An event whose header X-Service-Timestamp is one second away from t in the signature.",
		mend:  "The receiver uses only one of the two times. Compare them as text, before the signature.",
		code: []snippet{
			{"Node", "if (req.get('X-Service-Timestamp') !== t) return res.sendStatus(401);"},
			{"Python", "if request.headers.get('X-Service-Timestamp') != t:\n    return '', 401"},
			{"PHP", "if (($_SERVER['HTTP_X_SERVICE_TIMESTAMP'] ?? '') !== $t) { http_response_code(401); exit; }"},
			{"Go", goVerify},
		},
	},
	webhook.ProbeAlteredBody: {
		title: "Verify the bytes that came",
		sent:  "An event whose body got a blank in front after it was signed. As JSON it means the same.",
		mend: "The receiver parses the body, writes it again and verifies that. Verify the raw bytes, " +
			"and parse them afterwards.",
		code: []snippet{
			{"Node", "app.post('/webhooks', express.raw({ type: 'application/json' }), (req, res) => {\n" +
				"  const raw = req.body;               // a Buffer\n" +
				"  // … verify raw, and only then:\n" +
				"  const event = JSON.parse(raw);\n});"},
			{"Python", "raw = request.get_data()   # not request.json\n# … verify raw, and only then:\nevent = json.loads(raw)"},
			{"PHP", "$raw = file_get_contents('php://input');   // not a decoded and encoded array\n" +
				"// … verify $raw, and only then:\n$event = json_decode($raw, true);"},
			{"Go", "// … verify raw, and only then:\nvar event webhook.Event\nerr = json.Unmarshal(raw, &event)"},
		},
	},
}

// mendingOf returns what is known about a probe.
func mendingOf(p operate.ProbeReport) mending {
	if m, ok := mendings[p.Name]; ok {
		return m
	}
	return mending{title: p.Name}
}
