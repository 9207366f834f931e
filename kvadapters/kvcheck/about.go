package kvcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-id/verge/kvadapters/postgres"
	"github.com/verge-id/verge/kvadapters/redis"
)

// notRestarted begins the text about restarts.
const notRestarted = "Nothing was restarted, as the store may be in use. "

// redisServers is the combined information of all primaries.
type redisServers struct {
	n        int
	replicas int                        // number of replicas that every write waits for
	values   map[string]map[string]bool // values of each setting; "": not readable
	attached map[string]bool            // numbers of replicas; "": a number that may not be read
	warnings []string
}

func (s *redisServers) warn(text string) { s.warnings = append(s.warnings, text) }

// some reports whether a setting has the value on at least one server.
func (s *redisServers) some(setting, value string) bool { return s.values[setting][value] }

// aboutRedis evaluates the primaries' information. replicas is the number that every write waits for.
func aboutRedis(servers []redis.Server, replicas int) about {
	var a about
	var products []string
	all := redisServers{n: len(servers), replicas: replicas,
		values: map[string]map[string]bool{}, attached: map[string]bool{}}
	for _, s := range servers {
		if s.Product != "" && !slices.Contains(products, s.Product) {
			products = append(products, s.Product)
		}
		all.attached[s.Replicas] = true
		a.Clocks = append(a.Clocks, clock{s.Addr, milliseconds(s.Ahead), milliseconds(s.Within)})
		for _, name := range s.Asked() {
			if all.values[name] == nil {
				all.values[name] = map[string]bool{}
			}
			all.values[name][s.Settings[name]] = true
			a.Settings = append(a.Settings, setting{s.Addr, name, s.Settings[name]})
		}
	}
	a.Server = cmp.Or(strings.Join(products, ", "), "Redis of a version that it does not tell")
	if len(servers) > 1 {
		a.Server += fmt.Sprintf(", a Cluster of %d primaries", len(servers))
	}
	a.NotProven = []notProven{
		{"a restart", all.restart()},
		{"a failover", all.failover()},
		{"full memory", all.fullMemory()},
	}
	a.Warnings = all.warnings
	return a
}

// restart describes the loss in a restart and in a power cut.
func (s *redisServers) restart() string {
	keeps := ""
	switch {
	case s.some("appendonly", "no"):
		keeps = "appendonly is no: a restart forgets everything since the last snapshot."
		s.warn("appendonly is no: after a restart, tokens that were used can be used again; " +
			"set appendonly yes")
	case s.some("appendonly", "yes") && (s.some("appendfsync", "everysec") || s.some("appendfsync", "no")):
		keeps = "appendonly is yes, but appendfsync is not always: no loss by kill -9, " +
			"a power cut the last second or more."
		s.warn("appendfsync is not always: a power cut loses acknowledged writes of the " +
			"last second or more; set appendfsync always")
	case s.some("appendonly", ""):
		keeps = "The servers may not be asked for appendonly: see that it is yes, and appendfsync always."
	case s.some("appendfsync", "always"):
		keeps = "appendonly yes with appendfsync always keeps every write through kill -9 and a power cut, " +
			"if the disk really writes before it confirms."
	case s.some("appendfsync", ""):
		keeps = "appendonly is yes; appendfsync may not be asked: with anything but always, " +
			"a power cut takes the last second or more."
	}
	if s.some("cluster-require-full-coverage", "yes") && s.n > 1 {
		s.warn("cluster-require-full-coverage is yes: while one primary is down without a replica " +
			"that takes over, the whole Cluster rejects requests; give each primary a replica")
	}
	return notRestarted + keeps
}

// failover describes the possible loss when a replica is promoted.
func (s *redisServers) failover() string {
	none := len(s.attached) == 1 && s.attached["0"]
	unknown := s.attached[""]
	remains := "Replicas are connected: set store.replicas and min-replicas-to-write to narrow that."
	switch {
	case none:
		remains = "No replicas are connected, so there is nothing to fail over to."
	case s.replicas > 0:
		remains = fmt.Sprintf("Every write here waited for replicas (%d), "+
			"which narrows that and does not close it.", s.replicas)
	case unknown:
		remains = "The servers do not report whether they have replicas; with replicas, " +
			"set store.replicas and min-replicas-to-write."
	}
	if !none && s.replicas == 0 && !unknown {
		s.warn("replicas are connected, but no write waits for them: set store.replicas to 1 or more, " +
			"or a failover can lose acknowledged writes")
	}
	if !none && s.replicas > 0 && s.some("min-replicas-to-write", "0") {
		s.warn("min-replicas-to-write is 0: a primary that is cut off from its replicas " +
			"continues to accept writes that the next one will not have")
	}
	return "No primary was failed over. Replication is asynchronous: a replica that lags and is promoted " +
		"forgets writes that were acknowledged. " + remains
}

// fullMemory describes the behaviour of full servers.
func (s *redisServers) fullMemory() string {
	then := "maxmemory-policy noeviction rejects writes then and removes nothing."
	switch {
	case s.some("maxmemory", "") || s.some("maxmemory-policy", ""):
		then = "maxmemory or maxmemory-policy may not be asked: see that the policy is noeviction."
	case s.some("maxmemory", "0"):
		then = "maxmemory is 0: nothing bounds them but the machine, and a server without memory is killed."
		s.warn("maxmemory is 0: set a bound below what the machine has, with maxmemory-policy noeviction, " +
			"so that a full server rejects writes and is not killed")
	}
	policy, unbounded := "maxmemory-policy", s.some("maxmemory", "0")
	if unbounded && s.values[policy] != nil && !s.some(policy, "noeviction") && !s.some(policy, "") {
		s.warn("maxmemory-policy is not noeviction: as soon as maxmemory is set, used marks can be evicted")
	}
	return "The servers were not filled up. " + then
}

// aboutPostgres evaluates the primary's information. on is false if signals are off. seen is the reason why
// no signal arrived, or nil.
func aboutPostgres(s postgres.Server, on bool, seen error) about {
	a := about{
		Server: "PostgreSQL " + s.Version,
		ClockNote: "the server's own clock does not matter: items expire by the clocks of " +
			"Verge's instances, which must agree to within a second; let all of them set their clocks by NTP",
	}
	for _, name := range s.Asked() {
		a.Settings = append(a.Settings, setting{"primary", name, s.Settings[name]})
	}
	warn := func(text string) { a.Warnings = append(a.Warnings, text) }
	a.Signals = &signals{On: on, Arrive: on && seen == nil}
	if seen != nil {
		a.Signals.Seen = seen.Error()
		warn("signals do not arrive: tasks that an instance leaves to others " + untilPolled)
	}
	restart := "PostgreSQL confirms after an fsync, if the disk really writes before it confirms."
	if s.Settings["fsync"] == "off" {
		restart = "fsync is off: no loss by kill -9, but a power cut can destroy the whole database."
		warn("fsync is off: a power cut can destroy the whole database; set fsync = on")
	} else if s.Settings["full_page_writes"] == "off" {
		warn("full_page_writes is off: a power cut can leave torn pages; set it on, " +
			"unless the file system rules that out")
	}
	const lag = "replication is asynchronous: a replica that is promoted lacks the last commits, " +
		"and a token that was used in those moments can be used again"
	failover := "No primary was failed over. "
	switch waits := s.Settings["synchronous_commit"]; {
	case s.Replicas == 0:
		failover += "No replicas are connected, so there is nothing to fail over to."
	case s.Settings["synchronous_standby_names"] == "":
		failover += "synchronous_standby_names is empty, so " + lag + "."
		warn(lag + "; set synchronous_standby_names")
	case waits == "local":
		failover += "synchronous_commit is local, so " + lag + "."
		warn(lag + "; set synchronous_commit = on")
	case waits == "remote_write":
		failover += "synchronous_commit is remote_write: a commit waits until a replica has received it, " +
			"but not until it is on the replica's disk. If both lose power, it is lost."
	case s.Synchronous < 0:
		failover += "Commits wait for a replica. Which one cannot be seen: " +
			"GRANT pg_read_all_stats TO the user to see it. Promote only that one."
	case s.Synchronous == 0:
		const missing = "none of the connected replicas is synchronous, so writes are rejected until one is"
		failover += "Commits wait for a replica: " + missing + "."
		warn(missing + "; compare synchronous_standby_names with the application_name of the replicas")
	default:
		failover += fmt.Sprintf("Commits wait for a replica, and %d of %d connected ones can be the one. "+
			"If it is promoted, it has all acknowledged writes. Promote no other.", s.Synchronous,
			s.Replicas)
	}
	a.NotProven = []notProven{
		{"a restart", notRestarted + restart},
		{"a failover", failover},
		{"a full disk",
			"The disk was not filled up. When it is full, writes fail, or the server ends " +
				"and returns when there is space."},
	}
	return a
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
