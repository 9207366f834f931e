// Package core is the verification service as a function of request, time,
// randomness and KV. It opens no socket, starts no goroutine, reads no file
// and no clock of its own; what it needs of the world it asks of a host.Host.
// It compiles for GOOS=wasip1 as it is.
//
// Use New, and Handle for every request. Due tasks (webhooks, expiry timers)
// are run by whoever hosts the service: by Claim, Run and Defer with as much
// concurrency as the host has, or by RunDue one after the other.
//
// CONTRACT.md beside this file has all that publishers, operators and hosts can
// rely on, and RATIONALE.md says why the core is built like this.
//
// # Promised
//
//   - A result token validates at most once, whoever tries and however often.
//   - What is not known for certain denies: an error, a timeout or a lost
//     reply of the store grants nothing.
//   - An event whose transition was acknowledged ends delivered, or visible
//     among the dead ones.
//   - A session has one terminal state, and one terminal event where events
//     are sent. Whatever comes later changes nothing.
//   - No image, document or birth date is kept. State and external user id
//     are in the flow token and in events not yet delivered, and nowhere else.
//
// # Threats
//
// What each attacker gets; testharness/attackers tries every sentence.
//
//   - Anybody on the network: They make no token, session id or key that is
//     taken, and no answer tells why. Nothing of another deployment is taken,
//     even where it has the same key ring. Guesses are counted by address. After
//     twenty wrong operator tokens in a minute, no token of the address is
//     judged until the minute ends, and the audit names the address. An
//     idle or slow connection costs a connection and keeps no request of
//     others waiting.
//   - A browser: It can read, alter, share and repeat what it is sent. What it
//     is sent is sealed, and the store decides: it sees no state and no user
//     id, undoes no outcome, wins back no attempt and uses no result twice.
//     Where a method of an OpenID provider has max_age, an earlier sign-in
//     there proves nothing, even if the user changed the address. Another
//     site in it can neither frame a page nor, where the browser names the
//     site, post a form. Browsers of today name it over https. A form from
//     one that does not is taken, even with "Origin: null", which privacy
//     settings cause. To post that form, another site has to know the
//     session's link.
//   - Another host of the same domain: A cookie that it plants in a browser
//     counts as none of ours. So a login there completes no session of an
//     attacker, and nobody is signed in to the console as somebody else.
//   - Whoever estimates ages: They see the photos, without the place, the time
//     and the device that the file has of them, and nothing of the session,
//     its user or its publisher. They get at most ten photos of a session, and
//     each form's once.
//   - Whoever knows where an answer is posted: They answer once, if the method
//     believes the answer. What it does not believe changes nothing. They
//     complete no session by it: that needs the browser that asks, and, for an
//     answer from its own device, a code that this browser brings back.
//   - Whoever builds a wallet of their own: It proves an age only by a
//     document whose issuer an anchor of the method stands for, signed with
//     the key that the document names, as an answer to this session's
//     question at this address. What proves nothing is refused, and the
//     address goes on waiting. An anchor that the operator takes away proves
//     nothing from then on, also not by an answer that was taken before and
//     whose browser has not come yet. An answer counts for no higher age than
//     the wallet was asked for, whatever the publisher asks for meanwhile. By way of the
//     browser, an answer counts for the page's own origin and question alone.
//     A user who declines loses no attempt.
//   - Anyone who sends the code of their own session to another person: The
//     person who answers proves for that session, because an answer from
//     another device has no tie to a browser. The wallet names the site. With
//     cross_device = false, only a wallet on the browser's own device can
//     answer, and its user returns to a browser that completes nothing unless
//     it is the one that asks. Which wallet answers the browser's own dialog
//     is the browser's choice.
//   - Whoever has the link of a hand-off: The first device that begins does the
//     step, once, and every later one is told so. It gets no flow token and no
//     result, and completes no session: that needs the browser that waits.
//     Looking at the link changes nothing. Whoever is sent the link of
//     somebody else's session, and says that their own computer shows its
//     number, proves for that session: the page names the site and warns of
//     it.
//   - Whoever has a device with a passkey: They complete sessions of the
//     integrations that take it: up to the level and the ages for which it was
//     made, by a method that the integration offers under settings that are no
//     stricter, and until its time is over. What is not taken changes nothing,
//     and the page says why. It counts while that by which it was made holds:
//     the kind and the settings of the method, the trust anchor, and its
//     publisher. A passkey is made of a check that has just
//     succeeded, once, in the browser that was checked, and never of another
//     passkey, of a sandbox outside of dev, or of a check from before the
//     operator has ended the publisher's passkeys. If the device counts the uses
//     of a passkey, using a copy blocks
//     the passkey for good. Publishers do not learn of it: what validate and
//     the events say is the same as after any check.
//   - A public key, which anybody can read: It starts sessions of its one
//     integration, with a state and a user id of the caller's choice, and does
//     nothing else. Result tokens of its sessions go to the callback origins
//     that the integration lists and nowhere else. It does not lead to other
//     visitors' sessions.
//   - Another publisher's secret key: To it, this publisher's sessions, tokens
//     and integrations look as if they did not exist. A publisher's own key
//     that is stolen does what the publisher can do, until five seconds after
//     it is revoked.
//   - Another site, in a browser that is signed in to the console: It neither
//     frames a page nor acts: a form counts only with the token of its session
//     and action, and requests from other domains carry no cookie.
//   - A member of a publisher: They see their own publisher. Another's things
//     look as if they did not exist. They do what their role may, and a change
//     of role, a removal and a sign-out hold at once everywhere.
//   - Whoever finds an invitation or a sign-in link: It works once, and
//     looking at it uses nothing up. An invitation ends after a day and a link
//     after five minutes, and both as soon as whoever made them may make none
//     any more.
//   - A webhook receiver: It learns its own events and nothing else, and what
//     it answers, or does not, delays nobody else's. It leads the service to
//     no private address, neither by a redirect nor by a name.
//   - Whoever reads the store: They find no key, no token, no cookie,
//     invitation or sign-in link, no webhook secret or URL, also not of a
//     staged webhook, no state and no user id, and nothing against which a
//     guess at a webhook secret can be checked. Whoever has seen one signed
//     event can try secrets until one fits, so what guessers try first is
//     refused outside dev. They see publishers, integrations, and session ids
//     with their outcomes, and of the last steps without success the method,
//     the reason and the setting. They see who changed which setting when, and of
//     a webhook that was changed its host. They see members by name and role,
//     how often an integration was used on a day, and of each event of the
//     last days when it was tried and what came of it. They see of each
//     passkey what it stands for, for which publisher it was made and when,
//     and, if it has a counter, when it was last used. They see no name of its
//     user and nothing of a session.
//   - Whoever writes to the store: They make no outcome, key, integration,
//     member, operator token, passkey or session of the console, and move
//     none to another name. They write nothing into the audit, the log of
//     deliveries or the usage. They send no event to another integration than
//     its own. They can delete, and put back what once was: a used result
//     token is good again within its five minutes, a revoked key or operator
//     token works again, a member who was removed is back, an event is lost.
//     An entry of the audit that they delete remains in the log, where a
//     missing line breaks a chain of hashes.
//   - Whoever holds a ring that was replaced: They make nothing that is dated
//     more than five minutes after the replacement. They open what it has
//     sealed. With the store to write to, they make, dated before the
//     replacement, outcomes of sessions, which reconcile shows and validate
//     does not take, and events, until the key is retired. Of what is kept for
//     longer they make nothing any more, once the service has signed all of it
//     again with the new key. That is done about six minutes after that key
//     begins to seal. What they have planted by then stays. So does what they
//     plant after they have put back, while no instance runs, the set of keys
//     as it was in those minutes, or the whole store as it was before.
//   - Whoever holds the current ring: They make every session id, token and
//     record, and open everything that is sealed. A result still needs its
//     completed outcome in the store: without writing there they validate no
//     session that nobody completed.
//   - A WebAssembly module that is trusted: It has the authority of the key
//     ring: it has anything sealed, opened and signed, reads and writes the
//     store, posts to any public address and answers every request. It sees no
//     key, file or other process. If it breaks the protocol, its guests end
//     and the server goes on. A loop without end stops the process, except
//     where interruptible is set. Sent by an operator, it does not replace a
//     later version.
//   - A WebAssembly module that nobody trusts: It runs in dev alone: elsewhere
//     a module needs its digest in the configuration or a signature by the key
//     that is there. Neither the digest nor the signature protects against
//     somebody who can write to the directory of compiled modules, since those
//     are machine code.
//   - An operator who may only look: They see every publisher and change
//     nothing. They see no key, secret or token, and no state and no user id.
//   - Whoever has stolen an operator token: They do what its role may, until
//     it is revoked. That ends at once all sessions, links and invitations
//     that stand on it. The members whom they let in stay.
//
// # Not guaranteed
//
//   - Keys of an earlier release: A key without seals_from binds no session id
//     to the host and lets the store hold records without a MAC, as that
//     release did, until the ring is rotated once with this release. Going back
//     to that release is possible before that rotation and not after it.
//   - Clocks: Two instances whose clocks differ by more than five minutes
//     disagree about what has expired. Where they differ by more than a
//     minute, one can refuse a client for its rate that the other has just
//     served.
//   - The person in front of the browser: Whoever has the link of a session
//     that has not ended acts in it, and who comes back is who was verified
//     only as far as the method sees to it.
//   - Documents that were revoked: Status lists and revocation lists are not
//     read. A document counts until it expires, or until its signer's
//     certificate does, or its anchor is taken away.
//   - Passkeys that are shared: Devices that copy passkeys to each other
//     count nothing, so nobody sees a copy. Whoever has the account that
//     copies them, or may unlock the device, goes on with the passkey of
//     another.
package core
