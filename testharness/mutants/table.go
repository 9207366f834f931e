package main

// The tests that are asked, where a package has ones that take long.
const (
	harness = "./testharness "
	redis   = "./kvadapters/redis "
	etcd    = "./kvadapters/etcd "
)

// The table. Choose mistakes that somebody could make and a reviewer overlook;
// name what a publisher, a user or an operator would suffer by them.
var table = []mutant{

	// Validate: single use.
	{
		breaks: "a result token is used without the check that it is unused (I1)",
		file:   "core/api/validate.go",
		old:    `Checks: []kv.Check{{Name: name}},`,
		new:    ``,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "any Idempotency-Key gets the first answer of a used token (contract 11)",
		file:   "core/api/validate.go",
		old:    `idempotency != "" && string(first.Owner) == string(mark.Owner)`,
		new:    `idempotency != "" && len(first.Owner) == len(mark.Owner)`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "a result token is good at the very instant it expires",
		file:   "core/api/validate.go",
		old:    `if !c.now.Before(claims.Expires()) {`,
		new:    `if c.now.After(claims.Expires()) {`,
		ask:    []string{"./core/api", harness + "TestExactExpiry"},
	},
	{
		breaks: "a result token lives a second too long",
		file:   "core/token/claims.go",
		old:    `const ResultLife = 5 * time.Minute`,
		new:    `const ResultLife = 5*time.Minute + time.Second`,
		ask:    []string{"./core/token", harness + "TestExactExpiry"},
	},
	{
		breaks: "that a token is used is forgotten when it expires, by whichever clock is behind",
		file:   "core/api/validate.go",
		old:    `Expires: claims.Expires().Add(usedMargin)`,
		new:    `Expires: claims.Expires()`,
		ask:    []string{"./core/api", harness + "TestExactExpiry|TestEndedLinks|TestSingleUse"},
	},
	{
		breaks: "a reloaded callback hop gives a token that lives anew (contract 17)",
		file:   "core/hosted/hosted.go",
		old:    `claims := token.ResultClaims{Session: v.session.Text, Completed: token.At(r.At)}`,
		new:    `claims := token.ResultClaims{Session: v.session.Text, Completed: token.At(v.now)}`,
		ask:    []string{"./core/hosted", harness + "TestResultIdentity|TestExactExpiry"},
	},

	// Unknown outcomes.
	{
		breaks: "a lost reply is taken for success (I2)",
		file:   "core/kv/commit.go",
		old:    "	err = store.Commit(ctx, tx)\n	var conflict",
		new:    "	err = nil\n	var conflict",
		ask:    []string{"./core/kv"},
	},
	{
		breaks: "after a lost reply, somebody else's write is taken for one's own (I1, I2)",
		file:   "core/kv/commit.go",
		old:    `if it.Tx == tx.ID {`,
		new:    `if it.Tx != "" {`,
		ask:    []string{"./core/kv"},
	},
	{
		breaks: "an unknown outcome is answered 500, as if it were ours to mend and not theirs to repeat",
		file:   "core/service.go",
		old:    `errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) ||`,
		new:    `errors.Is(err, kv.ErrUnavailable) ||`,
		ask:    []string{"./core", harness + "TestStoreFaults"},
	},

	// Who may do what.
	{
		breaks: "a publisher validates another's token",
		file:   "core/api/start.go",
		old:    `errors.Is(err, integration.ErrNotFound) || err == nil && i.PublisherID != key.PublisherID`,
		new:    `errors.Is(err, integration.ErrNotFound)`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "a public key starts another integration of its publisher",
		file:   "core/api/start.go",
		old:    `if key.Public() && key.IntegrationID != owned.ID {`,
		new:    `if key.Public() && key.IntegrationID == "" {`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "a revoked key goes on authenticating",
		file:   "core/api/credential.go",
		old:    `errors.Is(err, integration.ErrNotFound) || err == nil && !key.Active(c.now)`,
		new:    `errors.Is(err, integration.ErrNotFound)`,
		ask:    []string{"./core/api", harness + "TestKeys"},
	},
	{
		breaks: "a key authenticates at the instant it expires",
		file:   "core/integration/key.go",
		old:    `now.Before(*k.Expires)`,
		new:    `!now.After(*k.Expires)`,
		ask:    []string{"./core/integration", harness + "TestKeys"},
	},
	{
		breaks: "a secret key works from a web page",
		file:   "core/api/credential.go",
		old:    `c.req.Header.Has("Origin") || c.req.Header.Has("Sec-Fetch-Site")`,
		new:    `c.req.Header.Has("Origin") && c.req.Header.Has("Sec-Fetch-Site")`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "guessing secret keys costs no rate: each guess has a counter of its own",
		file:   "core/api/credential.go",
		old:    `Key: c.client(), Limit: c.Limits.SecretPerIP`,
		new:    `Key: c.req.Header.Get("Authorization"), Limit: c.Limits.SecretPerIP`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "production starts sessions before the signed webhook test reported Ready",
		file:   "core/api/start.go",
		old:    `if !ready {`,
		new:    `if !ready && owned.Webhook.URL == "" {`,
		ask:    []string{"./core/api", harness + "TestProduction"},
	},
	{
		breaks: "an operator token that is not configured lets everybody in",
		file:   "core/admin/admin.go",
		old:    ` == 1 && ok && a.Token != ""`,
		new:    ` == 1 && ok`,
		ask:    []string{"./core/admin"},
	},
	{
		breaks: "a revocation takes more than 5 seconds to hold, by as long as a read takes (contract 12)",
		file:   "core/integration/directory.go",
		old:    `d.cache.Add(name, cached{v, now})`,
		new:    `d.cache.Add(name, cached{v, d.now()})`,
		ask:    []string{"./core/integration"},
	},
	{
		breaks: "a webhook secret copied into another integration's record signs there",
		file:   "core/integration/directory.go",
		old:    `err != nil || c.Integration != i.ID {`,
		new:    `err != nil {`,
		ask:    []string{"./core/integration"},
	},
	{
		breaks: "saving an integration undoes a change of its secret made at the same time",
		file:   "core/integration/directory.go",
		old:    `err = d.putIntegration(ctx, i, kept, &version)`,
		new:    "_ = version\n		err = d.putIntegration(ctx, i, kept, nil)",
		ask:    []string{"./core/integration"},
	},

	{
		breaks: "a public key works on any web page",
		file:   "core/api/cors.go",
		old:    `if i == nil || !slices.Contains(i.BrowserOrigins, origin) {`,
		new:    `if i == nil || len(i.BrowserOrigins) > 0 && !slices.Contains(i.BrowserOrigins, origin) {`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "a change of the webhook secret leaves the integration Ready",
		file:   "core/integration/readiness.go",
		old:    `	h.Write([]byte(secret))`,
		new:    ``,
		ask:    []string{"./core/integration"},
	},
	{
		breaks: "a test that failed leaves the integration Ready",
		file:   "core/integration/readiness.go",
		old:    `	if !r.Ready {`,
		new:    `	if !r.Ready && r.Tested == "" {`,
		ask:    []string{"./core/integration"},
	},
	{
		breaks: "the sandbox, which verifies nobody, runs in production",
		file:   "core/service.go",
		old:    `if p.Method() == sandbox.Method && !c.Dev && !c.Test {`,
		new:    `if p.Method() == sandbox.Method && len(c.Providers) > 1 && !c.Dev && !c.Test {`,
		ask:    []string{"./core"},
	},

	// Idempotency-Key on start.
	{
		breaks: "the same Idempotency-Key with another body gets the first one's session",
		file:   "core/api/idempotency.go",
		old:    `if !bytes.Equal(k.Request, r.request) {`,
		new:    `if bytes.HasPrefix(k.Request, r.request) && len(k.Request) > len(r.request) {`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "the same Idempotency-Key of another credential gets the first one's session",
		file:   "core/api/idempotency.go",
		old:    `sha256.Sum256([]byte(key.ID + "\x00" + idempotency))`,
		new:    `sha256.Sum256([]byte(key.PublisherID + "\x00" + idempotency))`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "two starts at once with one Idempotency-Key make two sessions",
		file:   "core/api/idempotency.go",
		old:    `return []kv.Check{{Name: r.name}}, []kv.Put{`,
		new:    `return nil, []kv.Put{`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "a kept answer opens under another key of the store than the one it was written to",
		file:   "core/api/idempotency.go",
		old:    `err != nil || k.Name != r.name {`,
		new:    `err != nil {`,
		ask:    []string{"./core/api"},
	},

	// The callback.
	{
		breaks: "a callback beside an allowed origin is taken for one inside it",
		file:   "core/api/callback.go",
		old:    `return sameOrigin(allowed, origin) })`,
		new:    `return strings.HasPrefix(origin, allowed) })`,
		ask:    []string{"./core/api TestParseCallback"},
	},
	{
		breaks: "a callback's path leaves its directory by escaped dots",
		file:   "core/api/callback.go",
		old:    `if segment, _ := url.PathUnescape(segment); segment == "." || segment == ".." {`,
		new:    `if segment == "." || segment == ".." {`,
		ask:    []string{"./core/api TestParseCallback"},
	},
	{
		breaks: "a callback brings a result_token of its own behind a semicolon",
		file:   "core/api/callback.go",
		old:    `return r == '&' || r == ';' })`,
		new:    `return r == '&' })`,
		ask:    []string{"./core/api TestParseCallback"},
	},
	{
		breaks: "in dev mode evil-localhost counts as loopback",
		file:   "core/api/callback.go",
		old:    `strings.HasSuffix(o.host, ".localhost")`,
		new:    `strings.HasSuffix(o.host, "localhost")`,
		ask:    []string{"./core/api TestParseCallback"},
	},
	{
		breaks: "a callback's host is a number that browsers take for an address",
		file:   "core/api/callback.go",
		old:    `isNumber(last) || isHexNumber(last)`,
		new:    `isNumber(last)`,
		ask:    []string{"./core/api TestParseCallback"},
	},

	// Tokens, ids and the key ring.
	{
		breaks: "all purposes share one key",
		file:   "core/token/ring.go",
		old:    `hkdf.Key(sha256.New, k.Secret, nil, label+purpose, secretSize)`,
		new:    `hkdf.Key(sha256.New, k.Secret, nil, label, secretSize)`,
		ask:    []string{"./core/token"},
	},
	{
		breaks: "a staging deployment's tokens open in production",
		file:   "core/token/seal.go",
		old:    `return append(ad, r.host...)`,
		new:    `return ad`,
		ask:    []string{"./core/token"},
	},
	{
		breaks: "half a MAC is enough",
		file:   "core/token/ring.go",
		old:    `hmac.Equal(mac[keyIDSize:], tag(pk.mac, message))`,
		new:    `hmac.Equal(mac[keyIDSize:keyIDSize+tagSize/2], tag(pk.mac, message)[:tagSize/2])`,
		ask:    []string{"./core/token"},
	},
	{
		breaks: "a session id without a valid MAC is taken for ours",
		file:   "core/session/id.go",
		old:    `if !sealer.CheckMAC(token.SessionID, b[:bodySize], b[bodySize:]) || b[0] != idVersion {`,
		new:    `if b[0] != idVersion {`,
		ask:    []string{"./core/session"},
	},
	{
		breaks: "a rotation of the key ring loses every living token",
		file:   "core/token/seal.go",
		old:    `d, ok := r.byID[[keyIDSize]byte(sealed[1:])]`,
		new:    `d, ok := r.first, r.first.id == [keyIDSize]byte(sealed[1:])`,
		ask:    []string{"./core/token"},
	},
	{
		breaks: "the oldest key of the ring seals, so that a rotation changes nothing",
		file:   "core/token/ring.go",
		old:    "		if r.first == nil {\n			r.first = d\n		}",
		new:    "		r.first = d",
		ask:    []string{"./core/token"},
	},
	{
		breaks: "a key is retired while what it sealed can still be asked for",
		file:   "core/token/keyring.go",
		old:    `!force && now.Before(alive) {`,
		new:    `!force && now.Before(kr.Keys[i].Replaced) {`,
		ask:    []string{"./core/token"},
	},
	{
		breaks: "the inner token's header chooses its own algorithm",
		file:   "core/token/seal.go",
		old:    `!ok || !bytes.Equal(header, pk.header) ||`,
		new:    `!ok || !bytes.HasPrefix(header, pk.header[:1]) ||`,
		ask:    []string{"./core/token"},
	},
	{
		breaks: "one token has several texts",
		file:   "core/token/seal.go",
		old:    `var text = base64.RawURLEncoding.Strict()`,
		new:    `var text = base64.RawURLEncoding`,
		ask:    []string{"./core/token"},
	},

	// Sessions.
	{
		breaks: "a session lives a second too long",
		file:   "core/session/id.go",
		old:    `const Life = 10 * time.Minute`,
		new:    `const Life = 10*time.Minute + time.Second`,
		ask:    []string{"./core/session"},
	},
	{
		breaks: "a session completes at the instant it expires",
		file:   "core/session/state.go",
		old:    `!r.Terminal() && !now.Before(expires)`,
		new:    `!r.Terminal() && now.After(expires)`,
		ask:    []string{"./core/session"},
	},
	{
		breaks: "a late answer changes an outcome that is final (I6)",
		file:   "core/session/state.go",
		old:    "	if r.Terminal() {\n		return r, false\n	}",
		new:    "",
		ask:    []string{"./core/session"},
	},
	{
		breaks: "a user has one attempt more than the setting says",
		file:   "core/session/state.go",
		old:    `if r.Attempts >= attempts {`,
		new:    `if r.Attempts > attempts {`,
		ask:    []string{"./core/session"},
	},
	{
		breaks: "a failed attempt is not kept, so that attempts never run out",
		file:   "core/session/state.go",
		old:    "		return r, true\n	}\n	return r, false",
		new:    "		return r, false\n	}\n	return r, false",
		ask:    []string{"./core/session"},
	},
	{
		breaks: "reconcile says PENDING of a session whose 10 minutes are over (contract 20)",
		file:   "core/api/reconcile.go",
		old:    `view(text, id, r.As(c.now, id.Expires()))`,
		new:    `view(text, id, r)`,
		ask:    []string{harness + "TestExactExpiry"},
	},
	{
		breaks: "a provider's answer for one session ends another",
		file:   "core/hosted/hosted.go",
		old:    `if c.Session != v.session.Text {`,
		new:    `if c.Session == "" {`,
		ask:    []string{"./core/hosted"},
	},
	{
		breaks: "a page of a sibling site posts a user's form",
		file:   "core/hosted/hosted.go",
		old:    `return site == "same-origin" || site == "none"`,
		new:    `return site == "same-origin" || site == "same-site" || site == "none"`,
		ask:    []string{"./core/hosted"},
	},
	{
		breaks: "a session that failed yields a result token",
		file:   "core/hosted/hosted.go",
		old:    `if r.State != session.Completed {`,
		new:    `if r.State == session.Expired {`,
		ask:    []string{"./core/hosted"},
	},

	// Transitions and what is committed with them.
	{
		breaks: "an outcome is written whatever was there: completion and expiry both win (I6)",
		file:   "core/lifecycle/lifecycle.go",
		old:    `	tx.Checks = append(tx.Checks, kv.Check{Name: name, Tx: version})`,
		new:    `	_ = version`,
		ask:    []string{"./core/lifecycle"},
	},
	{
		breaks: "the event is not in the commit of its transition, and lost if the process dies in between (I3)",
		file:   "core/lifecycle/lifecycle.go",
		old:    "		err = kv.CommitSurely(ctx, l.KV, tx)\n		var",
		new: `		events := tx.Schedule
		tx.Schedule = nil
		if err = kv.CommitSurely(ctx, l.KV, tx); err == nil && len(events) > 0 {
			err = l.KV.Commit(ctx, kv.Tx{ID: tx.ID + "-events", Partition: tx.Partition, Schedule: events})
		}
		tx.Schedule = events
		var`,
		ask: []string{"./core/lifecycle"},
	},
	{
		breaks: "a session that has ended keeps its timer",
		file:   "core/lifecycle/lifecycle.go",
		old:    `	tx.Cancel = append(tx.Cancel, s.ID.TimerID())`,
		new:    ``,
		ask:    []string{"./core/lifecycle"},
	},
	{
		breaks: "a session begins without its expiry timer (I7)",
		file:   "core/lifecycle/lifecycle.go",
		old:    `			tx.Schedule = append(tx.Schedule, outbox.Timer(s.ID, s.Text))`,
		new:    ``,
		ask:    []string{"./core/lifecycle"},
	},
	{
		breaks: "a start whose reply was lost is done again and sends its event twice (I4)",
		file:   "core/lifecycle/lifecycle.go",
		old:    `if len(tx.Checks) > 0 {`,
		new:    `if len(tx.Schedule) > 0 {`,
		ask:    []string{"./core/lifecycle"},
	},
	{
		breaks: "one failed attempt counts twice after a lost reply",
		file:   "core/lifecycle/lifecycle.go",
		old:    `case !errors.As(err, &conflict), errors.Is(err, kv.ErrUnknown) && !next.Terminal():`,
		new:    `case !errors.As(err, &conflict):`,
		ask:    []string{"./core/lifecycle"},
	},
	{
		breaks: "a timer that was frozen beyond its lease ends the session all the same",
		file:   "core/lifecycle/lifecycle.go",
		old:    `tx := kv.Tx{Partition: s.partition(), Held: held}`,
		new:    `tx := kv.Tx{Partition: s.partition()}`,
		ask:    []string{"./core/lifecycle"},
	},
	{
		breaks: "an outcome is forgotten when the session's life is over (contract 21)",
		file:   "core/lifecycle/lifecycle.go",
		old:    `Expires: s.ID.Expires().Add(l.OutcomeLife)`,
		new:    `Expires: l.Now().Add(l.OutcomeLife - session.Life)`,
		ask:    []string{"./core/lifecycle"},
	},

	// The outbox.
	{
		breaks: "an instance that was frozen beyond its lease records a delivery all the same",
		file:   "core/outbox/deliver.go",
		old:    `	tx.Held = []kv.Held{{TaskID: job.Task.ID, Lease: job.Task.Lease}}`,
		new:    ``,
		ask:    []string{"./core/outbox"},
	},
	{
		breaks: "a POST begins under a lease that may end before it (I4)",
		file:   "core/outbox/deliver.go",
		old:    `if now.Add(o.AttemptTime).After(job.Until) {`,
		new:    `if now.After(job.Until) {`,
		ask:    []string{"./core/outbox"},
	},
	{
		breaks: "our own store's error gives an event up (I11)",
		file:   "core/outbox/deliver.go",
		old:    "	if err != nil {\n		return err\n	}\n	if reason != \"\" {",
		new:    "	if err != nil {\n		reason = NoTarget\n	}\n	if reason != \"\" {",
		ask:    []string{"./core/outbox"},
	},
	{
		breaks: "a shutdown in the middle of a POST uses up an attempt (I8)",
		file:   "core/outbox/deliver.go",
		old:    `if ctx.Err() != nil {`,
		new:    `if ctx.Err() != nil && fetchErr == nil {`,
		ask:    []string{"./core/outbox"},
	},
	{
		breaks: "an event that is given up is tried again as well (I5)",
		file:   "core/outbox/deliver.go",
		old:    "		Cancel: []string{job.Task.ID},\n		Puts: ",
		new:    "		Puts: ",
		ask:    []string{"./core/outbox"},
	},
	{
		breaks: "the runner sleeps through the next attempt",
		file:   "core/outbox/deliver.go",
		old:    `			o.Wake(tx.Partition, t.Due)`,
		new:    `			_ = t`,
		ask:    []string{"./core/outbox"},
	},
	{
		breaks: "putting a delivery off counts an attempt",
		file:   "core/outbox/deliver.go",
		old:    `	return o.record(ctx, job, kv.Tx{Schedule: []kv.Task{{ID: job.Task.ID, Due: until, Payload: job.Task.Payload}}})`,
		new: `	m, sealed, err := Read(job.Task)
	if err != nil {
		return err
	}
	m.Attempts++
	return o.record(ctx, job, kv.Tx{Schedule: []kv.Task{{ID: job.Task.ID, Due: until, Payload: join(m, sealed)}}})`,
		ask: []string{"./core/outbox"},
	},
	{
		breaks: "two operators who resend one event send it twice",
		file:   "core/outbox/dead.go",
		old:    `		Checks:   []kv.Check{{Name: key.Name, Tx: item.Tx}},`,
		new:    ``,
		ask:    []string{"./core/outbox"},
	},
	{
		breaks: "the first delay of the schedule is left out (I8)",
		file:   "core/webhook/schedule.go",
		old:    `base := delays[attempts-1]`,
		new:    `base := delays[min(attempts, len(delays)-1)]`,
		ask:    []string{"./core/webhook"},
	},
	{
		breaks: "a receiver that answers 429 is tried again (I5)",
		file:   "core/webhook/schedule.go",
		old:    `case status >= 400 && status < 500:`,
		new:    `case status >= 400 && status < 500 && status != 429:`,
		ask:    []string{"./core/webhook"},
	},
	{
		breaks: "an event that was answered 204 is sent again (I5)",
		file:   "core/webhook/schedule.go",
		old:    `case status >= 200 && status < 300:`,
		new:    `case status == 200:`,
		ask:    []string{"./core/webhook"},
	},
	{
		breaks: "a signature does not bind its time, so that an old request can be sent again for ever",
		file:   "core/webhook/signature.go",
		old:    "	h.Write([]byte(ts))\n	h.Write([]byte{'.'})\n",
		new:    "",
		ask:    []string{"./core/webhook"},
	},
	{
		breaks: "a signature from the future is accepted",
		file:   "core/webhook/signature.go",
		old:    `case -age > limit:`,
		new:    `case -age > 10*limit:`,
		ask:    []string{"./core/webhook"},
	},
	{
		breaks: "a receiver that refuses everything with 400 counts as one that verifies",
		file:   "core/webhook/readiness.go",
		old:    `return r.Status == 401`,
		new:    `return r.Status >= 400 && r.Status < 500`,
		ask:    []string{"./core/webhook"},
	},

	// Rate limits.
	{
		breaks: "a limit that its period does not divide lets one through too many",
		file:   "core/ratelimit/gcra.go",
		old:    `return (l.Per + step - 1) / step * time.Microsecond`,
		new:    `return l.Per / step * time.Microsecond`,
		ask:    []string{"./core/ratelimit"},
	},
	{
		breaks: "a burst is one request too long",
		file:   "core/ratelimit/gcra.go",
		old:    `return l.cost() * time.Duration(l.Count) }`,
		new:    `return l.cost() * time.Duration(l.Count+1) }`,
		ask:    []string{"./core/ratelimit"},
	},
	{
		breaks: "whoever was idle has saved requests up",
		file:   "core/ratelimit/local.go",
		old:    `of[i].put(c.Name, later(before[i], now).Add(c.Cost), now, l.max)`,
		new:    `of[i].put(c.Name, before[i].Add(c.Cost), now, l.max)`,
		ask:    []string{"./core/ratelimit"},
	},
	{
		breaks: "a request that one limit denies is charged to the others",
		file:   "core/ratelimit/local.go",
		old:    "	if fits {\n",
		new:    "	if fits || len(charges) > 1 {\n",
		ask:    []string{"./core/ratelimit"},
	},
	{
		breaks: "an IPv6 subscriber has a limit for each of its addresses",
		file:   "core/ratelimit/ratelimit.go",
		old:    `netip.PrefixFrom(addr, 64).Masked().String()`,
		new:    `addr.String()`,
		ask:    []string{"./core/ratelimit"},
	},
	{
		breaks: "Retry-After is a second short",
		file:   "core/ratelimit/ratelimit.go",
		old:    `return int((d + time.Second - 1) / time.Second) }`,
		new:    `return max(1, int(d/time.Second)) }`,
		ask:    []string{"./core/ratelimit"},
	},

	{
		breaks: "a key that was not known when its request was counted is never counted",
		file:   "core/api/credential.go",
		old:    `c.charged != rule.Key {`,
		new:    `c.charged != "" && c.charged != rule.Key {`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "a request counts twice against its key",
		file:   "core/api/credential.go",
		old:    `		c.charged = r.Key`,
		new:    `		_ = r`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "pages that may not use a public key use up its rate",
		file:   "core/api/start.go",
		old:    `(i == nil || !c.req.Header.Has("Origin") || slices.Contains(i.BrowserOrigins, c.req.Header.Get("Origin")))`,
		new:    `i != nil`,
		ask:    []string{"./core/api"},
	},
	{
		breaks: "a store that cannot count lets everything through",
		file:   "core/ratelimit/ratelimit.go",
		old:    `		return Result{}, fmt.Errorf("ratelimit: counting the request: %w", err)`,
		new:    `		return Result{Allowed: true}, nil`,
		ask:    []string{"./core/ratelimit"},
	},

	// The store in memory.
	{
		breaks: "memory: an item is there at the instant it expires",
		file:   "kvadapters/memory/memory.go",
		old:    `!it.expires.IsZero() && !now.Before(it.expires)`,
		new:    `!it.expires.IsZero() && now.After(it.expires)`,
		ask:    []string{"./kvadapters/memory"},
	},
	{
		breaks: "memory: a check by Tx holds whoever wrote the item last",
		file:   "kvadapters/memory/memory.go",
		old:    `it != nil && it.tx == check.Tx:`,
		new:    `it != nil && check.Tx != "":`,
		ask:    []string{"./kvadapters/memory"},
	},
	{
		breaks: "memory: an empty lease holds a task that nobody claimed",
		file:   "kvadapters/memory/memory.go",
		old:    `t == nil || t.lease == "" || t.lease != held.Lease`,
		new:    `t == nil || t.lease != held.Lease`,
		ask:    []string{"./kvadapters/memory"},
	},
	{
		breaks: "memory: tasks are claimed in the order of their names",
		file:   "kvadapters/memory/memory.go",
		old:    `cmp.Or(a.ready.Compare(b.ready), strings.Compare(a.id, b.id)) < 0`,
		new:    `cmp.Or(strings.Compare(a.id, b.id), a.ready.Compare(b.ready)) < 0`,
		ask:    []string{"./kvadapters/memory TestKV/tasks"},
	},

	{
		breaks: "memory: an item that was put again is swept when it would have expired before",
		file:   "kvadapters/memory/memory.go",
		old:    "	p.delete(it.name)\n	p.items.Set(it)",
		new:    "	p.items.Set(it)",
		ask:    []string{"./kvadapters/memory"},
	},
	{
		breaks: "memory: a commit changes what stands before the check that fails",
		file:   "kvadapters/memory/memory.go",
		old: `	if conflict := p.evaluate(tx, now); conflict != nil {
		return conflict
	}
	for _, it := range puts {
		p.put(it)
	}`,
		new: `	conflict := p.evaluate(tx, now)
	for _, it := range puts {
		p.put(it)
	}
	if conflict != nil {
		return conflict
	}`,
		ask: []string{"./kvadapters/memory TestKV/commit"},
	},

	// The store in one file.
	{
		breaks: "bolt: a commit returns before it is on disk",
		file:   "kvadapters/bolt/open.go",
		old:    `&bbolt.Options{Timeout: timeout,`,
		new:    `&bbolt.Options{NoSync: true, Timeout: timeout,`,
		ask:    []string{"./kvadapters/bolt"},
	},
	{
		breaks: "bolt: tasks are claimed in the order of their names",
		file:   "kvadapters/bolt/tasks.go",
		old:    `cmp.Or(cmp.Compare(a.ready, b.ready), strings.Compare(a.id, b.id)) < 0`,
		new:    `cmp.Or(strings.Compare(a.id, b.id), cmp.Compare(a.ready, b.ready)) < 0`,
		ask:    []string{"./kvadapters/bolt TestKV/tasks"},
	},
	{
		breaks: "bolt: a claim hands out a task that a commit is about to remove",
		file:   "kvadapters/bolt/commit.go",
		old: `		t.lock <- struct{}{}
		g.locked[p] = t
	}
	return t
}

func (g *groupState) unlock() {
	for _, t := range g.locked {
		<-t.lock
	}
}`,
		new: `		g.locked[p] = t
	}
	return t
}

func (g *groupState) unlock() {}`,
		ask: []string{"./kvadapters/bolt"},
	},
	{
		breaks: "bolt: of commits that share a write, one learns another's result",
		file:   "kvadapters/bolt/commit.go",
		old:    `			c.done <- refused[i]`,
		new:    `			c.done <- refused[len(refused)-1-i]`,
		ask:    []string{"./kvadapters/bolt"},
	},
	{
		breaks: "bolt: two commits that share a write both hold one lease",
		file:   "kvadapters/bolt/commit.go",
		old:    `if g.touched[string(taskKey(c.partition, h.TaskID))] || !t.holds(h.TaskID, h.Lease) {`,
		new:    `if !t.holds(h.TaskID, h.Lease) {`,
		ask:    []string{"./kvadapters/bolt"},
	},
	{
		breaks: "bolt: a write that failed on the way to the disk is said to have changed nothing",
		file:   "kvadapters/bolt/commit.go",
		old:    `			c.done <- unknown(s.path, err)`,
		new:    `			c.done <- unavailable(s.path, err)`,
		ask:    []string{"./kvadapters/bolt"},
	},
	{
		breaks: "bolt: the store goes on after a failed write",
		file:   "kvadapters/bolt/commit.go",
		old:    "	case committing:\n		s.stop(err)\n",
		new:    "",
		ask:    []string{"./kvadapters/bolt"},
	},
	{
		breaks: "bolt: a caller that gave up while its commit was written is told that nothing changed",
		file:   "kvadapters/bolt/commit.go",
		old:    `		return unknown(s.path, context.Cause(ctx))`,
		new:    `		return unavailable(s.path, context.Cause(ctx))`,
		ask:    []string{"./kvadapters/bolt"},
	},
	{
		breaks: "bolt: leases from before a restart are given out again after it",
		file:   "kvadapters/bolt/open.go",
		old:    `	s.lease.opens = opens`,
		new:    `	_ = opens`,
		ask:    []string{"./kvadapters/bolt"},
	},
	{
		breaks: "bolt: an item that was put again is swept when it would have expired before",
		file:   "kvadapters/bolt/commit.go",
		old:    "		if err := deleteItem(tx, p.key); err != nil {\n			return nil, err\n		}\n",
		new:    "",
		ask:    []string{"./kvadapters/bolt TestAnItemThatIsPutAgain"},
	},

	// The store on Redis.
	{
		breaks: "redis: a result token is used without the check that it is unused (I1)",
		file:   "kvadapters/redis/commit.lua",
		old:    `	if tx ~= ARGV[a + i] then`,
		new:    `	if ARGV[a + i] ~= '' and tx ~= ARGV[a + i] then`,
		ask:    []string{redis + "TestKVOnMiniredis/commit"},
	},
	{
		breaks: "redis: a check by Tx holds where the item is gone",
		file:   "kvadapters/redis/commit.lua",
		old:    `	if tx ~= ARGV[a + i] then`,
		new:    `	if item and tx ~= ARGV[a + i] then`,
		ask:    []string{redis + "TestKVOnMiniredis/commit|TestKVOnMiniredis/items"},
	},
	{
		breaks: "redis: the fence is not compared: whoever held a task once holds it still",
		file:   "kvadapters/redis/commit.lua",
		old:    `	if call('HGET', tasks, '@' .. ARGV[a + 1]) ~= ARGV[a + 2] then`,
		new:    `	if not call('HGET', tasks, '@' .. ARGV[a + 1]) then`,
		ask:    []string{redis + "TestKVOnMiniredis/leases"},
	},
	{
		breaks: "redis: an item never expires",
		file:   "kvadapters/redis/commit.lua",
		old:    `		write('SET', key, ARGV[a + 1], 'PXAT', last)`,
		new:    `		write('SET', key, ARGV[a + 1])`,
		ask:    []string{redis + "TestKVOnMiniredis/items"},
	},
	{
		breaks: "redis: an item is there for a millisecond after it expired",
		file:   "kvadapters/redis/redis.go",
		old:    `strconv.FormatInt(expires-1, 10)`,
		new:    `strconv.FormatInt(expires, 10)`,
		ask:    []string{redis + "TestKVOnMiniredis/items"},
	},
	{
		breaks: "redis: an item that was put again is out of the list when it would have expired before",
		file:   "kvadapters/redis/commit.lua",
		old:    "		write('SET', key, ARGV[a + 1])\n		write('ZREM', expiries, name)",
		new:    "		write('SET', key, ARGV[a + 1])",
		ask:    []string{redis + "TestAnItemThatIsPutAgain"},
	},
	{
		breaks: "redis: a task that is scheduled anew is still held by its old lease",
		file:   "kvadapters/redis/commit.lua",
		old:    `		write('HDEL', tasks, '@' .. id)`,
		new:    ``,
		ask:    []string{redis + "TestKVOnMiniredis/leases"},
	},
	{
		breaks: "redis: the latest task is claimed first",
		file:   "kvadapters/redis/claim.lua",
		old:    `call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', '0', ARGV[4])`,
		new:    `call('ZREVRANGEBYSCORE', KEYS[3], ARGV[1], '-inf', 'WITHSCORES', 'LIMIT', '0', ARGV[4])`,
		ask:    []string{redis + "TestKVOnMiniredis/tasks"},
	},
	{
		breaks: "redis: a claimed task can be claimed again at once",
		file:   "kvadapters/redis/claim.lua",
		old:    `	call('ZADD', KEYS[3], ARGV[2], id)`,
		new:    `	call('ZADD', KEYS[3], 'NX', ARGV[2], id)`,
		ask:    []string{redis + "TestKVOnMiniredis/leases"},
	},
	{
		breaks: "redis: a claim does not write who holds the task",
		file:   "kvadapters/redis/claim.lua",
		old:    `	call('HSET', KEYS[4], '@' .. id, ARGV[6] .. '-' .. i)`,
		new:    `	call('HSETNX', KEYS[4], '@' .. id, ARGV[6] .. '-' .. i)`,
		ask:    []string{redis + "TestKVOnMiniredis/leases"},
	},
	{
		breaks: "redis: two claims give out one lease",
		file:   "kvadapters/redis/redis.go",
		old:    `	id := hex.EncodeToString(fence[:])`,
		new:    `	id := hex.EncodeToString(fence[:0])`,
		ask:    []string{redis + "TestKVOnMiniredis/leases"},
	},
	{
		breaks: "redis: of several limits only the last one denies",
		file:   "kvadapters/redis/spend.lua",
		old:    `		fits = fits and max(tat, now)`,
		new:    `		fits = max(tat, now)`,
		ask:    []string{redis + "TestSpend"},
	},
	{
		breaks: "redis: a counter is forgotten before it is full again",
		file:   "kvadapters/redis/spend.lua",
		old:    `math.ceil((tat - now) / 1000) + 10000`,
		new:    `math.min(math.ceil((tat - now) / 1000), 10000)`,
		ask:    []string{redis + "TestSpend"},
	},
	{
		breaks: "redis: of requests that are counted together, one is answered by another's counter",
		file:   "kvadapters/redis/batch.go",
		old:    `p.reply, parts = parts[:n:n], parts[n:]`,
		new:    `p.reply = parts[:n:n]`,
		ask:    []string{redis + "TestBatch|TestInstancesShareOneLimit"},
	},
	{
		breaks: "redis: a caller whose time is up while its commit travels is told that nothing changed",
		file:   "kvadapters/redis/batch.go",
		old:    `return nil, !p.aboard.CompareAndSwap(false, true), context.Cause(ctx)`,
		new:    `return nil, p.aboard.CompareAndSwap(false, true), context.Cause(ctx)`,
		ask:    []string{redis + "TestACallerWhoLeaves"},
	},
	{
		breaks: "redis: a commit whose reply was lost is sent again behind the caller's back",
		file:   "kvadapters/redis/do.go",
		old:    `if r.repeatable && attempt == 0 {`,
		new:    `if attempt == 0 {`,
		ask:    []string{redis + "TestLostReply"},
	},
	{
		breaks: "redis: a commit whose reply was lost is said to have changed nothing",
		file:   "kvadapters/redis/errors.go",
		old:    `	if r.commit {`,
		new:    `	if r.commit && s.config.Replicas > 0 {`,
		ask:    []string{redis + "TestLostReply"},
	},
	{
		breaks: "redis: a commit that too few replicas have is acknowledged",
		file:   "kvadapters/redis/do.go",
		old:    `if err == nil && replicas >= int64(s.config.Replicas) {`,
		new:    `if err == nil && replicas >= 0 {`,
		ask:    []string{redis + "TestMissingReplicas"},
	},
	{
		breaks: "redis: after SCRIPT FLUSH or a restart nothing works any more (I10)",
		file:   "kvadapters/redis/do.go",
		old:    "			load = true\n			continue",
		new:    "			return nil, s.refused(r, err)",
		ask:    []string{redis + "TestScriptsThatTheServerForgot"},
	},
	{
		breaks: "redis: a transaction that stopped half-way is said to have changed nothing",
		file:   "kvadapters/redis/errors.go",
		old:    `give the ACL user its permissions back", false`,
		new:    `give the ACL user its permissions back", true`,
		ask:    []string{redis + "TestExplain|TestPermissionWithdrawn"},
	},
	{
		breaks: "redis: two partitions share their keys",
		file:   "kvadapters/redis/redis.go",
		old:    `strings.NewReplacer("%", "%25", "}", "%7D")`,
		new:    `strings.NewReplacer("}", "%7D")`,
		ask:    []string{redis + "TestPartitionsWithBraces"},
	},
	{
		breaks: "redis: while a slot moves, the node that it moves to is not asked for its keys",
		file:   "kvadapters/redis/do.go",
		old:    `			asking = code == "ASK"`,
		new:    ``,
		ask:    []string{redis + "TestClusterThatMovesASlot"},
	},

	// The store on etcd.
	{
		breaks: "etcd: a check that there is no item is not sent, and two use one token (I1)",
		file:   "kvadapters/etcd/commit.go",
		old:    "		case stored == nil:\n			is(key, 0)\n",
		new:    "		case stored == nil:\n",
		ask:    []string{etcd + "TestKV/commit"},
	},
	{
		breaks: "etcd: a check by Tx holds on an item that has expired",
		file:   "kvadapters/etcd/commit.go",
		old:    `				clientv3.Compare(clientv3.Value(key), ">", aliveAfter(check.Tx, now)),`,
		new:    `				clientv3.Compare(clientv3.Value(key), ">", aliveAfter(check.Tx, 0)),`,
		ask:    []string{etcd + "TestKV/items|TestKV/commit"},
	},
	{
		breaks: "etcd: an item is there at the instant it expires",
		file:   "kvadapters/etcd/layout.go",
		old:    `return r.expires <= now }`,
		new:    `return r.expires < now }`,
		ask:    []string{etcd + "TestKV/items"},
	},
	{
		breaks: "etcd: a lease that somebody took over still holds",
		file:   "kvadapters/etcd/commit.go",
		old:    `clientv3.Compare(clientv3.Value(s.lease(p, held.TaskID)), "=", held.Lease)`,
		new:    `clientv3.Compare(clientv3.CreateRevision(s.lease(p, held.TaskID)), ">", 0)`,
		ask:    []string{etcd + "TestKV/leases|TestKV/commit"},
	},
	{
		breaks: "etcd: two instances claim one task",
		file:   "kvadapters/etcd/claim.go",
		old:    `clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(was), "=", e.revision)}, ops, nil)`,
		new:    `clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.task(p, e.id)), ">", 0)}, ops, nil)`,
		ask:    []string{etcd + "TestKV/leases"},
	},
	{
		breaks: "etcd: a commit whose reply was lost is said to have changed nothing",
		file:   "kvadapters/etcd/errors.go",
		old:    `kv.ErrUnknown, err, help)`,
		new:    `kv.ErrUnavailable, err, help)`,
		ask:    []string{etcd + "TestALostReply|TestAContextThatEnds"},
	},
	{
		breaks: "etcd: the request that crosses the quota, and is applied, is said to have changed nothing",
		file:   "kvadapters/etcd/errors.go",
		old:    `then etcdctl alarm disarm", false`,
		new:    `then etcdctl alarm disarm", true`,
		ask:    []string{etcd + "TestAFullQuota"},
	},
	{
		breaks: "etcd: a cancel that meets a claim leaves the task's entry behind",
		file:   "kvadapters/etcd/commit.go",
		old:    `				cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(s.due(p, ready, id)), ">", 0))`,
		new:    ``,
		ask:    []string{etcd + "TestACancelThat"},
	},
	{
		breaks: "etcd: instances that share a limit each allow all of it",
		file:   "kvadapters/etcd/meter.go",
		old:    `clientv3.Compare(clientv3.ModRevision(key), "=", was.revision)`,
		new:    `clientv3.Compare(clientv3.ModRevision(key), ">", was.revision-1)`,
		ask:    []string{etcd + "TestSpend|TestInstancesTogether"},
	},
	{
		breaks: "etcd: a request that one limit denies is charged to the others",
		file:   "kvadapters/etcd/meter.go",
		old:    "			ok = false\n		}\n",
		new:    "			ok = false\n			continue\n		}\n		ok = true\n",
		ask:    []string{etcd + "TestSpend"},
	},
	{
		breaks: "etcd: the sweep takes away what another instance's clock has not seen expire",
		file:   "kvadapters/etcd/sweep.go",
		old:    `sortable(s.now().Add(-s.grace))`,
		new:    `sortable(s.now())`,
		ask:    []string{etcd + "TestWhatHasExpired|TestATaskAndACounter"},
	},
	{
		breaks: "etcd: a server without a majority answers from what it remembers",
		file:   "kvadapters/etcd/etcd.go",
		old:    `return s.client.Get(clientv3.WithRequireLeader(ctx), key, opts...)`,
		new:    `return s.client.Get(ctx, key, append(opts, clientv3.WithSerializable())...)`,
		ask:    []string{etcd + "TestWithoutAMajority"},
	},

	// The runner.
	{
		breaks: "a destination that hangs takes every place of the runner (I9)",
		file:   "edge/runner/lanes.go",
		old:    `return l.laned < l.concurrency && ln.running < l.places()`,
		new:    `return l.laned < l.concurrency`,
		ask:    []string{"./edge/runner"},
	},
	{
		breaks: "many destinations that hang leave no place to the others (I9)",
		file:   "edge/runner/lanes.go",
		old:    `	return max(1, l.perLane/4)`,
		new:    `	return l.perLane`,
		ask:    []string{"./edge/runner"},
	},
	{
		breaks: "expiry timers wait behind deliveries (I7)",
		file:   "edge/runner/lanes.go",
		old:    `return l.timers < l.concurrency`,
		new:    `return l.running() < l.concurrency`,
		ask:    []string{"./edge/runner"},
	},
	{
		breaks: "leases that were given back count as room taken, until nothing is claimed any more",
		file:   "edge/runner/runner.go",
		old:    `			r.lanes.deferring--`,
		new:    ``,
		ask:    []string{"./edge/runner"},
	},
	{
		breaks: "a partition that cannot be reached delays the others (I10)",
		file:   "edge/runner/runner.go",
		old:    `		watching.Go(func() { w.run(ctx) })`,
		new:    `		w.run(ctx)`,
		ask:    []string{"./edge/runner"},
	},
	{
		breaks: "a shutdown cuts the POSTs that are under way",
		file:   "edge/runner/runner.go",
		old:    `context.WithCancel(context.WithoutCancel(ctx))`,
		new:    `context.WithCancel(ctx)`,
		ask:    []string{"./edge/runner"},
	},
	{
		breaks: "a drain does not give back what waits",
		file:   "edge/runner/runner.go",
		old:    `	r.putOff(waiting)`,
		new:    ``,
		ask:    []string{"./edge/runner"},
	},
	{
		breaks: "a wake that arrives during a claim is forgotten",
		file:   "edge/runner/runner.go",
		old: `	w.wakeAt = time.Time{}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.jobCtx, claimTimeout)
	defer cancel()
	return w.cfg.Outbox.Claim(ctx, w.partition, n)`,
		new: `	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.jobCtx, claimTimeout)
	defer cancel()
	jobs, next, err := w.cfg.Outbox.Claim(ctx, w.partition, n)
	w.mu.Lock()
	w.wakeAt = time.Time{}
	w.mu.Unlock()
	return jobs, next, err`,
		ask: []string{"./edge/runner"},
	},

	// The way out.
	{
		breaks: "a receiver redirects a webhook elsewhere (contract 26)",
		file:   "edge/egress/egress.go",
		old:    `c.transport.RoundTrip(r)`,
		new:    `(&http.Client{Transport: c.transport}).Do(r)`,
		ask:    []string{"./edge/egress"},
	},
	{
		breaks: "a webhook reaches a private address (contract 28)",
		file:   "edge/egress/egress.go",
		old:    `return c.guard.Safe(network, address, conn)`,
		new:    `return nil`,
		ask:    []string{"./edge/egress TestRebinding"},
	},
	{
		breaks: "a machine's credentials can be asked for on an address that no registry reserves",
		file:   "edge/egress/egress.go",
		old:    `		ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")),`,
		new:    ``,
		ask:    []string{"./edge/egress"},
	},
	{
		breaks: "a number in disguise is looked up as a name",
		file:   "edge/egress/egress.go",
		old:    `if looksNumeric(name) {`,
		new:    `if false {`,
		ask:    []string{"./edge/egress"},
	},
	{
		breaks: "more of an answer is read than the setting says",
		file:   "edge/egress/egress.go",
		old:    `io.LimitReader(resp.Body, int64(c.cfg.MaxBody))`,
		new:    `io.LimitReader(resp.Body, int64(c.cfg.MaxBody)+1)`,
		ask:    []string{"./edge/egress"},
	},
	{
		breaks: "a body that ends because we hung up is taken for the whole answer",
		file:   "edge/egress/egress.go",
		old:    `		err = ctx.Err()`,
		new:    ``,
		ask:    []string{"./edge/egress"},
	},
	{
		breaks: "webhooks go through a proxy that the environment names",
		file:   "edge/egress/egress.go",
		old:    `Proxy:                  nil,`,
		new:    `Proxy:                  http.ProxyFromEnvironment,`,
		ask:    []string{"./edge/egress"},
	},
	{
		breaks: "a small answer unpacks to a large one",
		file:   "edge/egress/egress.go",
		old:    `DisableCompression:     true,`,
		new:    ``,
		ask:    []string{"./edge/egress"},
	},

	{
		breaks: "the developer's way to loopback is open on a server",
		file:   "edge/egress/egress.go",
		old:    `	if c.Dev {`,
		new:    `	if c.Dev || c.RootCAs == nil {`,
		ask:    []string{"./edge/egress TestPrivateDestinations|TestPlainHTTP"},
	},

	// The way in.
	{
		breaks: "anybody names their own address in X-Forwarded-For (contract 30)",
		file:   "edge/server/client.go",
		old:    "	if !contains(trusted, at) {\n		return at\n	}\n	parse",
		new:    "	parse",
		ask:    []string{"./edge/server TestClientAddr"},
	},
	{
		breaks: "behind a proxy, the left-most entry of X-Forwarded-For is believed (contract 30)",
		file:   "edge/server/client.go",
		old:    "			at = addr\n			if !contains(trusted, at) {\n				return at\n			}",
		new:    "			at = addr",
		ask:    []string{"./edge/server TestClientAddr"},
	},
	{
		breaks: "a body that is too large is cut off and taken for a whole one",
		file:   "edge/server/door.go",
		old:    `make([]byte, web.MaxBody+1)`,
		new:    `make([]byte, web.MaxBody)`,
		ask:    []string{"./edge/server TestBodyLimit|TestRefusals", harness + "TestBodies"},
	},
	{
		breaks: "a session's path, with a token pasted into it, is in the log",
		file:   "edge/server/access.go",
		old:    `if len(segment) > limit || strings.Contains(segment, "svc_") {`,
		new:    `if len(segment) > limit {`,
		ask:    []string{"./edge/server TestLogs|TestAccessLog"},
	},
	{
		breaks: "a service that drains still says that it is ready",
		file:   "edge/server/health.go",
		old:    `	if p.draining.Load() {`,
		new:    `	if p.draining.Load() && p.err != nil {`,
		ask:    []string{"./edge/server TestDrain|TestHealth"},
	},
	{
		breaks: "a drain cuts requests that are being answered",
		file:   "edge/server/server.go",
		old:    `err := d.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded)`,
		new:    `err := errors.Join(d.http.Close(), ctx.Err()); errors.Is(err, context.DeadlineExceeded)`,
		ask:    []string{"./edge/server TestDrain"},
	},

	// The process.
	{
		breaks: "an instance sleeps through what another one that died has left (I10)",
		file:   "cmd/verge/instance.go",
		old:    `!s.store.shared(),`,
		new:    `true,`,
		ask:    []string{"./cmd/verge TestAnIdleInstance"},
	},
	{
		breaks: "a key ring that the group can read is used",
		file:   "cmd/verge/files.go",
		old:    `info.Mode().Perm() & 0o077`,
		new:    `info.Mode().Perm() & 0o007`,
		ask:    []string{"./cmd/verge TestLiveRing|TestWritePrivate|TestScripts"},
	},
	{
		breaks: "a rotation of the key ring waits for a restart",
		file:   "cmd/verge/livering.go",
		old:    `		l.ring.Store(ring)`,
		new:    `		l.ring.CompareAndSwap(nil, ring)`,
		ask:    []string{"./cmd/verge TestLiveRing"},
	},

	// Modules.
	{
		breaks: "anything of the right length is a module's signature",
		file:   "cmd/verge/trust.go",
		old:    `!ed25519.Verify(t.key, signedText(digest), signature)`,
		new:    `len(signature) != ed25519.SignatureSize`,
		ask:    []string{"./cmd/verge TestTrust"},
	},
	{
		breaks: "whoever has the operator token has any module run, whatever is pinned",
		file:   "cmd/verge/swap.go",
		old:    `if err := m.trust.check(next.digest, next.signature); err != nil {`,
		new:    `if err := m.trust.check(next.digest, next.signature); err != nil && next.wasm == nil {`,
		ask:    []string{"./cmd/verge TestHangUpReadsPins"},
	},
	{
		breaks: "after SIGHUP the old pin still counts for what operators send",
		file:   "cmd/verge/swap.go",
		old:    `m.trust = at.trust`,
		new:    `_ = at.trust`,
		ask:    []string{"./cmd/verge TestHangUpReadsPins"},
	},
	{
		breaks: "any operator token replaces the module",
		file:   "cmd/verge/swap.go",
		old:    `subtle.ConstantTimeCompare(want[:], got[:]) == 1`,
		new:    `subtle.ConstantTimeCompare(want[:], got[:]) >= 0`,
		ask:    []string{"./cmd/verge TestModulesThatAreRefused"},
	},
	{
		breaks: "the code of another module runs, from a cache that was damaged",
		file:   "cmd/verge/modulecache.go",
		old:    `case mine && c.sum(path) != sum:`,
		new:    `case mine && len(c.sum(path)) != len(sum):`,
		ask:    []string{"./cmd/verge TestCompiledModules"},
	},

	// The module.
	{
		breaks: "a guest traps where a function goes on after a recovered panic",
		file:   "wasm/reloop/function.go",
		old:    `f.block(max(back, 1) - 1).entered = true`,
		new:    `_ = max(back, 1)`,
		ask:    []string{"./wasm/reloop"},
	},
	{
		breaks: "a guest comes back into the middle of a loop by its head",
		file:   "wasm/reloop/function.go",
		old:    `if b.entered {`,
		new:    `if b.entered && b == first {`,
		ask:    []string{"./wasm/reloop"},
	},
	{
		breaks: "a guest's loop is entered where another block falls into it",
		file:   "wasm/reloop/function.go",
		old:    `if first.at == 0 || f.blocks[first.at-1].falls() {`,
		new:    `if first.at == 0 {`,
		ask:    []string{"./wasm/reloop"},
	},
}
