package redis

import (
	"fmt"
	"strings"

	"github.com/verge-id/verge/core/kv"
)

const clusterHint = "use redis+cluster:// or rediss+cluster:// in the URL"

const noPermission = "the ACL user may not do this: it needs its keys, " +
	"~{prefix:* where the prefix is verge unless set, and the commands that kvadapters/redis lists"

// rejections are the codes of replies that certainly changed no data, with advice for each. Redis sends them
// before a script runs or at its first write.
var rejections = []struct{ code, advice string }{
	{"OOM", "the server's maxmemory is used up: raise it, or find the keys that fill the server"},
	{"READONLY", "this server is a replica: point the URL at the primary, or at Sentinel"},
	{"NOPERM", noPermission},
	{"ERR The user executing the script", noPermission},
	{"NOAUTH", "the server requires a password: set it in the URL or in the settings"},
	{"WRONGPASS", "wrong user or password: correct them"},
	{"WRONGTYPE", "a key under our prefix was written by something else: choose another prefix, or remove " +
		"that key"},
	{"MISCONF", "the server cannot write to its disk: see its log"},
	{"NOREPLICAS", "fewer replicas than min-replicas-to-write are connected: bring them back"},
	{"CLUSTERDOWN", "no node of the Cluster serves this slot: wait for its failover, or see cluster info"},
	{"CROSSSLOT", "the server does not honour hash tags; this store cannot run on it"},
	{"TRYAGAIN", "the slot is being moved: wait until it has arrived"},
	{"MOVED", clusterHint},
	{"ASK", "the slot is being moved: wait until it has arrived"},
	{"LOADING", "the server is still reading its data: wait"},
	{"MASTERDOWN", "this server is a replica without its primary: point the URL at the primary"},
	{"BUSY", "another script keeps the server busy: see its slowlog"},
	{"NOSCRIPT", "the server does not keep scripts"},
	{"DENIED", "the server is in protected mode: bind it and give it a password"},
	{"NOPROTO", "the server is too old: Verge needs Redis 6.2 or later"},
	{"VERGEDAMAGED", "a key was evicted or removed: set maxmemory-policy noeviction and restore a copy"},
	{"ERR max number of clients", "raise maxclients, or lower pool_size in the URL"},
	{"ERR unknown command", "the server is too old or has renamed this command: Verge needs " +
		"Redis 6.2 or later"},
	{"ERR This instance has cluster support disabled",
		"the server is not part of a Cluster: write redis:// or rediss:// in the URL"},
	{"ERR AUTH", "the server has no password set, or no such user: correct the URL"},
	{"ERR DB index", "the server has no database of that number: correct the URL"},
	{"ERR syntax", "the server is too old: Verge needs Redis 6.2 or later"},
}

// halfway marks a script that failed after its first write.
const halfway = "VERGEHALF"

// explain returns advice on an error reply, and whether the request certainly changed no data.
func explain(answer string) (advice string, nothing bool) {
	if strings.Contains(answer, halfway) {
		return "a permission was withdrawn while a transaction ran, and it stopped half-way: " +
			"give the ACL user its permissions back", false
	}
	for _, r := range rejections {
		// Before Redis 7, an error within a script does not begin with its code.
		inScript := strings.HasPrefix(answer, "ERR") && strings.Contains(answer, ": "+r.code+" ")
		if strings.HasPrefix(answer, r.code) || inScript {
			return r.advice, true
		}
	}
	return "", false
}

// rejected returns the error of a request to which the server replied with err.
func (s *Store) rejected(r request, err error) error {
	advice, nothing := explain(err.Error())
	if advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	if nothing {
		return s.unavailable(r, err)
	}
	return s.lost(r, err)
}

// lost returns the error of a request that the server may have executed.
func (s *Store) lost(r request, err error) error {
	if r.commit {
		return s.unknown(r, err)
	}
	return s.unavailable(r, err)
}

func (s *Store) unavailable(r request, err error) error {
	return fmt.Errorf("redis: %s: %w: %w", r.base, kv.ErrUnavailable, err)
}

func (s *Store) unknown(r request, err error) error {
	return fmt.Errorf("redis: %s: %w: %w", r.base, kv.ErrUnknown, err)
}
