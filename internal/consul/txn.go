package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/hashicorp/consul/api"
)

// Txn makes the operations on Consul's KV store all at once, or none of them;
// where they only read, the answer tells what every write has left that was
// answered before. done says whether they were made: the response names the
// operations that stood in the way if not.
//
// act is what they are for, such as "write record task/web", and needs the
// rights that they take; both are for errors.
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
	r := request{act: act, needs: needs, path: "/v1/txn", body: body, query: url.Values{"consistent": {""}}}
	a, err := c.get(ctx, r, func(d *json.Decoder) error { return d.Decode(resp) })
	if err != nil {
		return nil, false, c.toKV(ctx, act, err)
	}
	for _, e := range resp.Errors {
		// Access control refuses single operations, too.
		if err := c.statusError(act, 409, e.What, needs); IsForbidden(err) {
			return nil, false, c.toKV(ctx, act, err)
		}
	}
	return resp, !a.refused, nil
}

// Forbidden is the error where access control has left out of an answer what
// was asked for.
func (c *Client) Forbidden(act, needs string) error {
	return &readError{act: act, inKV: true, address: c.address, kind: forbidden,
		cause: errors.New("access control hides it"), advice: "the token (consul.token, CONSUL_HTTP_TOKEN) needs " + needs}
}

// toKV has an error say that it is about the KV store.
func (c *Client) toKV(ctx context.Context, act string, err error) error {
	if e := (*readError)(nil); errors.As(err, &e) {
		e.inKV = true
		return e
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s in Consul's KV store at %s: %w", act, c.address, cause)
	}
	return err
}
