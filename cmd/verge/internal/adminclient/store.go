package adminclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/kv"
)

// StorePage is one page of the rows of a Worker's partition.
type StorePage struct {
	Items        []storedItem `json:"items"`
	Tasks        []storedTask `json:"tasks"`
	RemovedItems []string     `json:"removed_items"`
	RemovedTasks []string     `json:"removed_tasks"`
	Next         string       `json:"next"` // the cursor of the next page; "": this is the last one
}

type storedItem struct {
	Name    string     `json:"name"`
	Value   []byte     `json:"value"`
	Tx      string     `json:"tx"`
	Expires *storeTime `json:"expires"`
}

type storedTask struct {
	ID      string     `json:"id"`
	Due     *storeTime `json:"due"`
	Payload []byte     `json:"payload"`
}

// storeTime is a time as nanoseconds since 1970, in decimal: a number in JavaScript has 53 bits.
type storeTime struct{ time.Time }

func (t storeTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(strconv.FormatInt(t.UnixNano(), 10))
}

func (t *storeTime) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	t.Time = time.Unix(0, n).UTC()
	return err
}

// KVItems returns the items of the page, which is a page of p.
func (p *StorePage) KVItems(of kv.Partition) (all []kv.Item) {
	for _, it := range p.Items {
		item := kv.Item{Key: kv.Key{Partition: of, Name: it.Name}, Value: it.Value, Tx: it.Tx}
		if it.Expires != nil {
			item.Expires = it.Expires.Time
		}
		all = append(all, item)
	}
	return all
}

// KVTasks returns the tasks of the page. A task without a time, which no Worker sends, has the zero time.
func (p *StorePage) KVTasks() (all []kv.Task) {
	for _, t := range p.Tasks {
		task := kv.Task{ID: t.ID, Payload: t.Payload}
		if t.Due != nil {
			task.Due = t.Due.Time
		}
		all = append(all, task)
	}
	return all
}

// StorePartitions returns the number of partitions of sessions of a Worker's store.
func (c *Client) StorePartitions(ctx context.Context) (int, error) {
	var state struct {
		Partitions int `json:"partitions"`
	}
	err := c.send(ctx, "GET", admin.StorePath, jsonHeader(), nil, &state)
	return state.Partitions, err
}

// ReadStore returns a page of a partition of a Worker's store. after is the Next of the previous page.
func (c *Client) ReadStore(ctx context.Context, p kv.Partition, after string) (*StorePage, error) {
	var page StorePage
	query := url.Values{"partition": {string(p)}, "after": {after}}
	if err := c.send(ctx, "GET", admin.StorePath+"?"+query.Encode(), jsonHeader(), nil, &page); err != nil {
		return nil, err
	}
	return &page, nil
}

// StoreAction is an action on a partition of a Worker's store.
type StoreAction string

// The actions. A locked partition rejects all requests of the service.
const (
	StoreLock   StoreAction = "lock"
	StoreClear  StoreAction = "clear"  // remove all rows of a locked partition, to begin an import
	StoreCount  StoreAction = "count"  // count the rows
	StoreUnlock StoreAction = "unlock" // end the lock, unless an import was interrupted
	StoreFinish StoreAction = "finish" // end the lock after an import
)

// StoreState is the result of a StoreAction.
type StoreState struct {
	Empty       bool `json:"empty"`       // of StoreLock: the partition has no rows
	Interrupted bool `json:"interrupted"` // of StoreLock: an import began and did not finish
	Items       int  `json:"items"`       // of StoreCount
	Tasks       int  `json:"tasks"`       // of StoreCount
}

// ChangeStore carries out an action.
func (c *Client) ChangeStore(ctx context.Context, p kv.Partition, do StoreAction) (StoreState, error) {
	var state StoreState
	err := c.storePost(ctx, map[string]any{"action": do, "partition": p}, &state)
	return state, err
}

// LoadStore adds rows to a locked partition.
func (c *Client) LoadStore(ctx context.Context, p kv.Partition, items []kv.Item, tasks []kv.Task) error {
	rows := StorePage{}
	for _, it := range items {
		item := storedItem{Name: it.Key.Name, Value: it.Value, Tx: it.Tx}
		if !it.Expires.IsZero() {
			item.Expires = &storeTime{it.Expires}
		}
		rows.Items = append(rows.Items, item)
	}
	for _, t := range tasks {
		rows.Tasks = append(rows.Tasks, storedTask{ID: t.ID, Due: &storeTime{t.Due}, Payload: t.Payload})
	}
	var none struct{}
	body := map[string]any{
		"action":    "load",
		"partition": p,
		"items":     orEmpty(rows.Items),
		"tasks":     orEmpty(rows.Tasks),
	}
	return c.storePost(ctx, body, &none)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (c *Client) storePost(ctx context.Context, body map[string]any, out any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("adminclient: %w", err)
	}
	return c.send(ctx, "POST", admin.StorePath, jsonHeader(), b, out)
}
