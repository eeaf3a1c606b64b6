package consul

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Txn performs all operations on Consul's KV store or none. Reads show every write
// that was answered before. If done is false, the response names the operations
// that failed.
//
// For errors, act is the purpose, such as "write record task/web", and needs are
// the rights that the operations take.
func (c *Client) Txn(ctx context.Context, act, needs string, ops []*api.KVTxnOp) (resp *api.TxnResponse, done bool, err error) {
	txn := make(api.TxnOps, len(ops))
	for i, op := range ops {
		txn[i] = &api.TxnOp{KV: op}
	}
	body, err := json.Marshal(txn)
	if err != nil {
		return nil, false, err
	}
	resp = new(api.TxnResponse)
	r := request{body: body, inKV: true, Request: condition.Request{Act: act, Needs: needs, Path: "/v1/txn", Query: url.Values{"consistent": {""}}}}
	a, err := c.get(ctx, r, func(d *json.Decoder) error { return d.Decode(resp) })
	if err != nil {
		return nil, false, err
	}
	for _, e := range resp.Errors {
		// Access control refuses single operations, too.
		if err := c.statusError(r, http.StatusConflict, e.What); IsForbidden(err) {
			return nil, false, err
		}
	}
	return resp, !a.refused, nil
}

// Await returns when a key below a prefix of Consul's KV store may have changed since the index, and
// the next index. It returns now and then although nothing has changed, and at once if the index is 0.
func (c *Client) Await(ctx context.Context, act, needs, prefix, namespace string, index uint64) (uint64, error) {
	r := request{inKV: true, Request: condition.Request{Act: act, Needs: needs, Path: "/v1/kv/" + prefix, Query: url.Values{"keys": {""}}, Missing: true}}
	r.Scope.Namespace = namespace
	a, err := c.block(ctx, r, index, longWait)
	if err != nil {
		return 0, err
	}
	if a.index < index { // Consul was restored
		return 0, nil
	}
	return a.index, nil
}

// Forbidden is the error if access control has left something out of an answer.
func (c *Client) Forbidden(act, needs string) error {
	return c.denied(request{inKV: true, Request: condition.Request{Act: act, Needs: needs}}, "access control hides it")
}
