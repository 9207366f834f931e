package etcd

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Scratch is a place for tests on servers that are in use. Its stores begin empty and are under the
// URL's prefix, where the user may write. Erase removes everything that they wrote.
type Scratch struct{ root *Store }

// OpenScratch is Open for a Scratch. The name must be unique and valid as a prefix in a URL. The stores
// never sweep.
func OpenScratch(ctx context.Context, url string, c Config, name string) (*Scratch, error) {
	addr, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	addr.prefix += name + "/"
	c.SweepEvery = -1
	root, err := open(ctx, addr, c)
	if err != nil {
		return nil, err
	}
	return &Scratch{root}, nil
}

// KeysBegin returns how all its keys begin. No other key begins like this.
func (s *Scratch) KeysBegin() string { return s.root.prefix }

// Store returns the store of that name. The caller must not close it.
func (s *Scratch) Store(name string) *Store {
	r := s.root
	return &Store{
		layout: layout{r.prefix + name + "/"}, client: r.client, now: r.now, random: r.random,
		timeout: r.timeout, maxRequest: r.maxRequest, grace: r.grace, counters: r.counters,
	}
}

// Erase removes everything under KeysBegin, a few keys at a time, so that no other request waits long
// behind it. No call may be under way.
func (s *Scratch) Erase(ctx context.Context) error {
	end := clientv3.GetPrefixRangeEnd(s.root.prefix)
	for {
		page, err := s.root.get(ctx, s.root.prefix,
			clientv3.WithRange(end), clientv3.WithLimit(listPage), clientv3.WithKeysOnly())
		if err != nil {
			return failed("erasing", err)
		}
		if len(page.Kvs) == 0 {
			return nil
		}
		last := string(page.Kvs[len(page.Kvs)-1].Key)
		erase := clientv3.OpDelete(s.root.prefix, clientv3.WithRange(last+"\x00"))
		if _, _, err := s.root.txn(ctx, nil, []clientv3.Op{erase}, nil); err != nil {
			return failed("erasing", err)
		}
	}
}

// Close closes the connections. It erases nothing.
func (s *Scratch) Close() error { return s.root.Close() }

// Server is what a server reports about itself.
type Server struct {
	Addr    string
	Version string // empty: it does not answer or refuses the question
	Quota   int64  // --quota-backend-bytes; 0: unknown to this version
	Size    int64  // of the database, in bytes
	Alarms  []string
}

// Servers asks the servers of the URL about themselves, and how many members their cluster has. 0
// members means that the servers refuse the question.
func (s *Scratch) Servers(ctx context.Context) (servers []Server, members int) {
	for _, endpoint := range s.root.client.Endpoints() {
		server := Server{Addr: strings.TrimPrefix(strings.TrimPrefix(endpoint, "https://"), "http://")}
		asking, cancel := context.WithTimeout(ctx, s.root.timeout)
		if status, err := s.root.client.Status(asking, endpoint); err == nil {
			server.Version, server.Alarms = status.Version, status.Errors
			server.Size, server.Quota = status.DbSize, status.DbSizeQuota
		}
		cancel()
		servers = append(servers, server)
	}
	asking, cancel := context.WithTimeout(ctx, s.root.timeout)
	defer cancel()
	if list, err := s.root.client.MemberList(asking); err == nil {
		members = len(list.Members)
	}
	return servers, members
}
