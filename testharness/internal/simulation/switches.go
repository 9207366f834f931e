package simulation

// faultSwitch is a kind of fault or of behaviour that a seed can have.
type faultSwitch int

const (
	switchTurns       faultSwitch = iota // other tasks continue at a call of a port
	switchSlow                           // a task stands still at a call of a port
	switchReject                         // the store rejects a call
	switchLoseRequest                    // a call does not reach the store
	switchLoseReply                      // a reply of the store is lost
	switchLate                           // a commit with an unknown outcome is applied later
	switchCut                            // an instance does not reach a partition of the store
	switchPassOver                       // a claim passes over a task that is due
	switchFailover                       // the store loses its latest writes
	switchFreeze                         // an instance freezes
	switchKill                           // an instance dies and comes back
	switchOld                            // an instance comes back with old files
	switchClocks                         // the clocks differ and jump
	switchReceivers                      // receivers fail, hang and respond late
	switchNetwork                        // a client's request or its response is lost
	switchTabs                           // users have two tabs and click twice
	switchRetries                        // publishers repeat all requests
	switchOperator                       // operators change settings
	switchKeys                           // operators create and revoke keys
	switchTrust                          // operators change trust anchors, and restart the instances
	switchPasskeys                       // users create and use passkeys
	switchPhones                         // users continue on a phone
	switchRotation                       // the key ring is rotated; instances have it at different times
	switchWallets                        // wallets show other documents, late and twice
	switchLists                          // issuers revoke documents, and their servers fail
	switchMembers                        // operators admit, demote and remove people of the console
	switchAttackers                      // attackers with a link, a token or another publisher's key
	switchArchive                        // operators archive publishers and integrations
	switchSigned                         // wallets fetch signed requests, and encrypt responses

	switches
)

// switchInfo is the name of a switch and its rates, in a thousand, at calls or actions where it can happen.
// Its seeds have one of these rates.
var switchInfo = [switches]struct {
	name  string
	rates []int
}{
	switchTurns:       {"turns", []int{20, 200, 500}},
	switchSlow:        {"slow", []int{2, 10, 40}},
	switchReject:      {"refused calls", []int{5, 20, 100}},
	switchLoseRequest: {"lost calls", []int{10, 50, 200}},
	switchLoseReply:   {"lost replies", []int{10, 50, 200}},
	switchLate:        {"late commits", []int{10, 50, 200}},
	switchCut:         {"cut partitions", []int{100, 300}},
	switchPassOver:    {"passed over", []int{50, 300}},
	switchFailover:    {"failover", []int{100, 300}},
	switchFreeze:      {"freezes", []int{100, 300}},
	switchKill:        {"kills", []int{100, 300}},
	switchOld:         {"old files", []int{500}},
	switchClocks:      {"clocks", []int{100, 300}},
	switchReceivers:   {"receivers", []int{100, 500}},
	switchNetwork:     {"network", []int{50, 200}},
	switchTabs:        {"tabs", []int{200, 500}},
	switchRetries:     {"retries", []int{200, 500}},
	switchOperator:    {"operator", []int{300, 900}},
	switchKeys:        {"keys", []int{300, 900}},
	switchTrust:       {"trust", []int{300, 900}},
	switchPasskeys:    {"passkeys", []int{500, 1000}},
	switchPhones:      {"phones", []int{300, 700}},
	switchRotation:    {"rotation", []int{1000}},
	switchWallets:     {"wallets", []int{200, 500}},
	switchLists:       {"lists", []int{200, 500}},
	switchMembers:     {"members", []int{1000}},
	switchAttackers:   {"attackers", []int{500, 1000}},
	switchArchive:     {"archives", []int{1000}},
	switchSigned:      {"signed requests", []int{100, 300}},
}

// Behaviour of people is no fault. Without any fault, stricter rules hold.
func (f faultSwitch) isFault() bool {
	switch f {
	case switchTurns,
		switchPasskeys,
		switchPhones,
		switchReceivers,
		switchTabs,
		switchRetries,
		switchOperator,
		switchKeys,
		switchRotation,
		switchWallets,
		switchLists,
		switchMembers,
		switchAttackers,
		switchArchive,
		switchSigned:
		return false
	}
	return true
}

// rates are the rates of a seed: each switch is off, or has one of its rates.
type rates [switches]int

// draw chooses the switches of a seed. Each seed has about a third of them: a history with all faults
// hardly ever gets far.
func draw(s *stream) (r rates) {
	calm := s.pick(8) == 7
	for f := range switches {
		on, at := s.pick(3) == 2, s.pick(len(switchInfo[f].rates))
		switch f { // such a history costs as much as several others
		case switchRotation:
			on = s.pick(12) == 11
		case switchArchive, switchSigned:
			on = s.pick(6) == 5
		}
		if on && !(calm && f.isFault()) {
			r[f] = switchInfo[f].rates[at]
		}
	}
	return r
}
