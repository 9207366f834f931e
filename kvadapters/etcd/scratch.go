package etcd

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Scratch is a place on servers that are in use, for whoever tries them: empty
// stores under the URL's prefix, which is what the user may write, and Erase,
// which removes all of it.
type Scratch struct{ root *Store }

// OpenScratch is Open for a Scratch. name must be unique, and like a prefix in
// a URL. Its stores never sweep.
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

// KeysBegin is how all its keys begin, and no other keys.
func (s *Scratch) KeysBegin() string { return s.root.prefix }

// Store returns the store of that name. It is not to be closed.
func (s *Scratch) Store(name string) *Store {
	r := s.root
	return &Store{
		layout: layout{r.prefix + name + "/"}, client: r.client, now: r.now, random: r.random,
		timeout: r.timeout, maxRequest: r.maxRequest, grace: r.grace, counters: r.counters,
	}
}

// Erase removes everything under KeysBegin, a few at a time, so that nobody
// else's request waits for long behind it. Nothing may be under way.
func (s *Scratch) Erase(ctx context.Context) error {
	end := clientv3.GetPrefixRangeEnd(s.root.prefix)
	for {
		page, err := s.root.get(ctx, s.root.prefix, clientv3.WithRange(end), clientv3.WithLimit(listPage), clientv3.WithKeysOnly())
		if err != nil {
			return failed("erasing", err)
		}
		if len(page.Kvs) == 0 {
			return nil
		}
		last := string(page.Kvs[len(page.Kvs)-1].Key)
		if _, _, err := s.root.txn(ctx, nil, []clientv3.Op{clientv3.OpDelete(s.root.prefix, clientv3.WithRange(last+"\x00"))}, nil); err != nil {
			return failed("erasing", err)
		}
	}
}

// Close closes the connections. It erases nothing.
func (s *Scratch) Close() error { return s.root.Close() }

// Server is what a server says of itself to those who may ask.
type Server struct {
	Addr    string
	Version string // empty: it does not answer, or may not be asked
	Quota   int64  // --quota-backend-bytes; 0: unknown to this version
	Size    int64  // of the database, in bytes
	Alarms  []string
}

// Servers asks the servers of the URL, and how many members their cluster has;
// 0 members: it may not be asked.
func (s *Scratch) Servers(ctx context.Context) (servers []Server, members int) {
	for _, endpoint := range s.root.client.Endpoints() {
		server := Server{Addr: strings.TrimPrefix(strings.TrimPrefix(endpoint, "https://"), "http://")}
		asking, cancel := context.WithTimeout(ctx, s.root.timeout)
		if status, err := s.root.client.Status(asking, endpoint); err == nil {
			server.Version, server.Size, server.Quota, server.Alarms = status.Version, status.DbSize, status.DbSizeQuota, status.Errors
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
