// Package consulkv keeps the state of Terrapulse in Consul's KV store, which the
// instances of a cluster share.
//
// A record is a key below a folder of the cluster. Its value is stored unchanged,
// so that `consul kv get` shows it. Its version is Consul's modify index. Further
// data is in the key's flags, a number that clients may set: see flags.
//
// Every request is a transaction, so that one address is sufficient, and a key may
// contain characters that are not allowed in a URL. Transactions of more than 64
// operations, and reads of missing keys in them, exist since Consul 1.14.
package consulkv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// folder separates the records from others below the same path: those of CTS, and Terraform's
	// states.
	folder = "terrapulse/"

	// expiring is the prefix of an index of expiring records, by the hour. No record begins like
	// this.
	expiring = ".expiring/"

	// sweepEvery is how often a process that writes expiring records searches for expired ones.
	sweepEvery = time.Hour
	// sweepPortion limits how many of them one transaction removes: each needs three operations.
	sweepPortion = state.MaxChanges / 3
)

// While Consul's servers elect a leader, which takes seconds, they delay a request for up to 7 s by
// default, or answer that they cannot reach the previous leader. Such requests, and requests
// without an answer, are retried until patience is over.
const (
	tryFor      = 8 * time.Second // one request
	patience    = 10 * time.Second
	firstWait   = 50 * time.Millisecond
	longestWait = time.Second
)

// Store is a state.Store in Consul's KV store. It is safe for concurrent use.
type Store struct {
	client    *consul.Client
	prefix    string // the prefix of every key
	namespace string
	partition string
	now       func() time.Time

	mu    sync.Mutex
	swept time.Time
}

var (
	_ state.Store   = (*Store)(nil)
	_ state.Awaiter = (*Store)(nil)
)

// Open returns the store below a path of Consul's KV store, in a namespace, or
// in the configured one if that is "". It does not connect.
//
// The store has its own connections, so that the renewal of a lease does not wait
// for the reading of services.
func Open(cfg config.Consul, path, namespace string) (*Store, error) {
	client, err := consul.New(cfg)
	if err != nil {
		return nil, err
	}
	prefix := folder
	if path = strings.Trim(path, "/"); path != "" {
		prefix = path + "/" + folder
	}
	return &Store{client: client, prefix: prefix, namespace: cmp.Or(namespace, cfg.Namespace), partition: cfg.Partition, now: time.Now}, nil
}

// Close implements state.Store.
func (s *Store) Close() error { return nil }

// Get implements state.Store.
func (s *Store) Get(ctx context.Context, key string) (state.Record, error) {
	if err := state.ValidateKey(key); err != nil {
		return state.Record{}, fmt.Errorf("read record: %w", err)
	}
	act := "read record " + key
	pairs, err := s.read(ctx, act, s.op(api.KVGetOrEmpty, key))
	switch {
	case err != nil:
		return state.Record{}, err
	case len(pairs) == 0:
		return state.Record{}, s.client.Forbidden(act, s.rights("read"))
	case pairs[0].ModifyIndex == 0:
		return state.Record{}, state.ErrNotFound
	}
	return s.record(pairs[0]), nil
}

// List implements state.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]state.Record, error) {
	if err := state.ValidatePrefix(prefix); err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	// Consul omits, without a message, what the token may not read. So it does for the answer to a
	// missing key.
	act := "list records " + prefix
	pairs, err := s.read(ctx, act, s.op(api.KVGetOrEmpty, prefix), s.op(api.KVGetTree, prefix))
	if err != nil {
		return nil, err
	}
	if len(pairs) == 0 || pairs[0].Key != s.prefix+prefix {
		return nil, s.client.Forbidden(act, s.rights("read"))
	}
	records := list.Map(pairs[1:], s.record)
	slices.SortFunc(records, func(a, b state.Record) int { return strings.Compare(a.Key, b.Key) })
	return records, nil
}

// Apply implements state.Store with one transaction.
func (s *Store) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if err := state.Validate(changes...); err != nil {
		return nil, fmt.Errorf("write to store: %w", err)
	}
	if len(changes) == 0 {
		return nil, nil
	}
	t := s.transaction(changes)
	err := retry(ctx, t.act, func(ctx context.Context) error { return t.try(ctx) })
	if err != nil {
		return nil, err
	}
	if t.expires {
		s.sweep(ctx)
	}
	return t.records, nil
}

// Await implements state.Awaiter with a blocking query.
func (s *Store) Await(ctx context.Context, prefix, mark string) (string, error) {
	since, _ := strconv.ParseUint(mark, 10, 64) // 0 if there is no mark yet
	next, err := s.client.Await(ctx, "wait for changes below "+prefix, s.rights("read"), s.prefix+prefix, s.namespace, since)
	if err != nil || next == 0 {
		return "", err
	}
	return version(next), nil
}

// op returns an operation on one record.
func (s *Store) op(verb api.KVOp, key string) *api.KVTxnOp {
	return &api.KVTxnOp{Verb: verb, Key: s.prefix + key, Namespace: s.namespace, Partition: s.partition}
}

func (s *Store) record(pair *api.KVPair) state.Record {
	return state.Record{Key: strings.TrimPrefix(pair.Key, s.prefix), Value: pair.Value, Version: version(pair.ModifyIndex)}
}

func (s *Store) rights(right string) string {
	rights := fmt.Sprintf("key_prefix %q { policy = %q }", s.prefix, right)
	if s.namespace != "" {
		rights += " in namespace " + s.namespace
	}
	return rights
}

// read executes read operations and returns the pairs.
func (s *Store) read(ctx context.Context, act string, ops ...*api.KVTxnOp) (pairs []*api.KVPair, err error) {
	err = retry(ctx, act, func(ctx context.Context) error {
		pairs = nil
		resp, done, err := s.client.Txn(ctx, act, s.rights("read"), ops)
		if err != nil {
			return err
		}
		if !done {
			return unexpected(act, resp)
		}
		for _, result := range resp.Results {
			if result.KV != nil {
				pairs = append(pairs, result.KV)
			}
		}
		return nil
	})
	return pairs, err
}

// unexpected is the error for an answer that should not occur.
func unexpected(act string, resp *api.TxnResponse) error {
	what := list.Map(resp.Errors, func(e *api.TxnError) string { return e.What })
	return fmt.Errorf("%s in Consul's KV store: Consul denies the request: %s", act, strings.Join(what, "; "))
}

// errAgain is the error of a transaction that was refused because of conditions that have changed
// since.
var errAgain = errors.New("others wrote the same records repeatedly")

// retry calls do until it succeeds or fails for a reason that is not transient.
func retry(ctx context.Context, act string, do func(context.Context) error) error {
	within, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
	defer cancel()
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = firstWait, longestWait, 2
	var last error
	_, err := backoff.Retry(within, func() (struct{}, error) {
		try, cancel := context.WithTimeoutCause(within, tryFor, fmt.Errorf("no answer within %s", tryFor))
		defer cancel()
		err := do(try)
		if within.Err() != nil && fault.IsTransient(err) && fault.IsTransient(last) {
			return struct{}{}, last // says more than that this try was cut off
		}
		last = err
		if last != nil && !fault.IsTransient(last) && !errors.Is(last, errAgain) {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}, backoff.WithBackOff(waits))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s in Consul's KV store: %w", act, context.Cause(ctx))
	}
	return last // says more than the end of patience
}

// transaction is one Apply.
type transaction struct {
	*Store
	act     string
	id      uint64 // distinguishes its writes from others
	changes []state.Change
	ops     []*api.KVTxnOp
	change  []int // of each operation, an index
	expires bool
	lost    error // error of an attempt that may have taken place

	records []state.Record // the written records
}

func (s *Store) transaction(changes []state.Change) *transaction {
	t := &transaction{Store: s, changes: changes, id: rand.Uint64() & idMask, act: "write record " + changes[0].Key}
	if len(changes) > 1 {
		t.act = fmt.Sprintf("write %d records, beginning with %s", len(changes), changes[0].Key)
	}
	for i, c := range changes {
		add := func(verb api.KVOp, key string) *api.KVTxnOp {
			op := s.op(verb, key)
			t.ops, t.change = append(t.ops, op), append(t.change, i)
			return op
		}
		switch c.Op {
		case state.OpCreate, state.OpReplace:
			op := add(api.KVCAS, c.Key)
			op.Value, op.Flags = c.Value, flags(t.id, c.Expires)
			if c.Op == state.OpReplace {
				op.Index = index(c.Version)
			}
			if !c.Expires.IsZero() { // the index key of an expiring record
				add(api.KVSet, fmt.Sprintf("%s%06d/%s", expiring, hour(c.Expires), c.Key)).Flags = op.Flags
				t.expires = true
			}
		case state.OpDelete: // the verb delete-cas also succeeds for a missing key
			add(api.KVCheckIndex, c.Key).Index = index(c.Version)
			add(api.KVDelete, c.Key)
		case state.OpCheck:
			add(api.KVCheckIndex, c.Key).Index = index(c.Version)
		}
	}
	return t
}

// try executes the transaction, or finds the reason for its refusal.
func (t *transaction) try(ctx context.Context) error {
	resp, done, err := t.client.Txn(ctx, t.act, t.rights("write"), t.ops)
	if err != nil {
		if t.lost == nil && fault.IsTransient(err) {
			t.lost = err
		}
		return err
	}
	if done {
		for _, result := range resp.Results {
			if result.KV != nil && result.KV.Flags&idMask == t.id {
				t.wrote(result.KV.ModifyIndex)
				break
			}
		}
		if t.records == nil {
			t.wrote(0) // only checks and deletes
		}
		return nil
	}
	return t.refused(ctx, resp)
}

// wrote records the result: all writes of one transaction have the same index.
func (t *transaction) wrote(index uint64) {
	t.records = make([]state.Record, len(t.changes))
	for i, c := range t.changes {
		if c.Op == state.OpCreate || c.Op == state.OpReplace {
			t.records[i] = state.Record{Key: c.Key, Value: c.Value, Version: version(index)}
		}
	}
}

// refused reads the records because of which Consul has refused the transaction.
func (t *transaction) refused(ctx context.Context, resp *api.TxnResponse) error {
	var suspects []int
	var ops []*api.KVTxnOp
	for _, e := range resp.Errors {
		if e.OpIndex < 0 || e.OpIndex >= len(t.ops) {
			return unexpected(t.act, resp)
		}
		i := t.change[e.OpIndex]
		if !slices.Contains(suspects, i) {
			suspects, ops = append(suspects, i), append(ops, t.op(api.KVGetOrEmpty, t.changes[i].Key))
		}
	}
	found, done, err := t.client.Txn(ctx, t.act, t.rights("write"), ops)
	switch {
	case err != nil:
		return err
	case !done:
		return unexpected(t.act, found)
	case len(found.Results) != len(suspects):
		return t.client.Forbidden(t.act, t.rights("write"))
	}
	var conflict error
	for n, i := range suspects {
		c, pair := t.changes[i], found.Results[n].KV
		there := pair.ModifyIndex != 0
		if there && pair.Flags&idMask == t.id {
			// This transaction itself took place before, and only its answer was lost.
			t.wrote(pair.ModifyIndex)
			return nil
		}
		var current state.Record
		if there {
			current = t.record(pair)
		}
		switch {
		case conflict != nil:
		case c.Op == state.OpDelete && !there && t.lost != nil:
			// Perhaps this transaction itself removed the record: Consul does not show it.
			conflict = t.lost
		default:
			conflict = c.Conflict(current)
		}
	}
	if conflict == nil { // the record that prevented a Create is gone by now
		conflict = fmt.Errorf("%w: %w", unexpected(t.act, resp), errAgain)
	}
	return conflict
}

// Consul keeps a number with every key, its flags. The upper bits are the hour since 1970 at which
// the record expires (0: never), the lower bits an id of the transaction that wrote it.
const (
	idBits = 44
	idMask = 1<<idBits - 1
)

func flags(id uint64, expires time.Time) uint64 {
	if expires.IsZero() {
		return id
	}
	return hour(expires)<<idBits | id
}

// hour returns the first full hour since 1970 that is not before t.
func hour(t time.Time) uint64 {
	return uint64(max(1, (t.Unix()+3600)/3600))
}

// sweep sometimes removes expired records. Its failure does not affect the write: the next sweep
// tries again.
func (s *Store) sweep(ctx context.Context) {
	now := s.now()
	s.mu.Lock()
	due := now.Sub(s.swept) >= sweepEvery
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	const act = "list the records that expire"
	markers, err := s.read(ctx, act, s.op(api.KVGetTree, expiring))
	if err != nil {
		return
	}
	past := uint64(now.Unix() / 3600)
	markers = slices.DeleteFunc(markers, func(m *api.KVPair) bool { return m.Flags>>idBits > past })
	for portion := range slices.Chunk(markers, sweepPortion) {
		if s.remove(ctx, portion, past) != nil {
			return
		}
	}
}

// remove removes the index keys, and their records unless they got a later expiry since.
func (s *Store) remove(ctx context.Context, markers []*api.KVPair, past uint64) error {
	const act = "remove records that have expired"
	var reads, ops []*api.KVTxnOp
	for _, m := range markers {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVDelete, Key: m.Key, Namespace: s.namespace, Partition: s.partition})
		_, key, _ := strings.Cut(strings.TrimPrefix(m.Key, s.prefix+expiring), "/")
		reads = append(reads, s.op(api.KVGetOrEmpty, key))
	}
	pairs, err := s.read(ctx, act, reads...)
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		if end := pair.Flags >> idBits; pair.ModifyIndex == 0 || end == 0 || end > past {
			continue
		}
		key := strings.TrimPrefix(pair.Key, s.prefix)
		check := s.op(api.KVCheckIndex, key)
		check.Index = pair.ModifyIndex
		ops = append(ops, check, s.op(api.KVDelete, key))
	}
	_, _, err = s.client.Txn(ctx, act, s.rights("write"), ops)
	return err
}

func version(index uint64) string { return strconv.FormatUint(index, 10) }

// index returns the modify index of a version, or an index that no key will ever have if it is not
// a version of this store.
func index(v string) uint64 {
	if n, err := strconv.ParseUint(v, 10, 64); err == nil && n > 0 && version(n) == v {
		return n
	}
	return math.MaxUint64
}
