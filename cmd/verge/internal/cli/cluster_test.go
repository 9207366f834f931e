package cli

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
)

// TestFleet_Cluster runs three instances on a Redis Cluster, whose nodes share the rate counters. A limit
// holds across the instances, requests that it denies use up no other limit (contract 30), and a revocation
// holds everywhere within 5 seconds (contract 12).
func TestFleet_Cluster(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestFleet_Cluster")
	sink := newEvents(t)
	sink.trust(testSecret)
	const perKey, perIP, sent = 30, 100, 300
	site := newSite(t, stores.StartCluster(t, 3).URL(), sink.URL,
		"[limits]\nreconcile_per_key = 30\nsecret_per_ip = 100\n")
	fleet := []*served{site.start(), site.start(), site.start()}
	id, _, err := fleet[0].start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}

	begin := time.Now()
	var allowed, denied atomic.Int64
	var clients sync.WaitGroup
	for n := range sent {
		clients.Go(func() {
			switch status, _, body, err := fleet[n%3].api("GET", "/api/v1/verify/sessions/"+id, nil); {
			case err != nil:
				t.Error(err)
			case status == 200:
				allowed.Add(1)
			case status == 429:
				denied.Add(1)
			default:
				t.Errorf("reconcile: %d %s", status, body)
			}
		})
	}
	clients.Wait()
	restored := int64(time.Since(begin).Seconds()*perKey/60) + 1
	if got := allowed.Load(); got < perKey || got > perKey+restored {
		t.Errorf("contract 30: %d of %d requests were allowed, want %d to %d", got, sent, perKey,
			perKey+restored)
	}
	if denied.Load() < perIP {
		t.Errorf("%d requests were denied, too few to show that they do not count", denied.Load())
	}
	if _, _, err := fleet[1].start(testIntegration); err != nil {
		t.Errorf("contract 30: denied requests have used up the limit of the address: %v", err)
	}

	p, _, _ := testProgram()
	p.Getenv = func(name string) (string, bool) { return testToken, name == "VERGE_OPERATOR_TOKEN" }
	code, out := asOperator(p, fleet[0].at, "key", "list", "--publisher", "pub_example", "--json")
	var keys []struct{ ID string }
	if code != exitOK || json.Unmarshal([]byte(out), &keys) != nil || len(keys) != 1 {
		t.Fatalf("key list: exit code %d: %s", code, out)
	}
	if code, out = asOperator(p, fleet[0].at, "key", "revoke", keys[0].ID); code != exitOK {
		t.Fatalf("key revoke: exit code %d: %s", code, out)
	}
	time.Sleep(5 * time.Second)
	for n, in := range fleet {
		if _, _, err := in.start(testIntegration); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("contract 12: 5 s after the revocation, instance %d: %v, want 401", n, err)
		}
	}
}
