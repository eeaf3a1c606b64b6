// Package audit keeps who did or decided what: each change that a person or program makes, with what
// proves their name.
//
// An entry is written in the same Apply as the change that it describes. So there is no change
// without its entry, and no entry without its change. Each entry is a record of its own that expires:
// nothing reads or rewrites earlier ones to add one. Its key begins with its month, which is one
// partition in DynamoDB, and sorts by time.
package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Retention is how long entries are kept unless the configuration says otherwise.
const Retention = 365 * 24 * time.Hour

// Action is what somebody did.
type Action string

// The actions.
const (
	Run         Action = "run"
	Cancel      Action = "cancel"
	Approve     Action = "approve"
	Reject      Action = "reject"
	ApproveAll  Action = "approve_all"
	Hold        Action = "hold"
	Release     Action = "release"
	Pause       Action = "pause"
	Resume      Action = "resume"
	Create      Action = "create"
	Enable      Action = "enable"
	Disable     Action = "disable"
	Delete      Action = "delete"
	Destroy     Action = "destroy"
	Forget      Action = "forget"
	Reset       Action = "reset"
	Restore     Action = "restore"
	CreateToken Action = "create_token"
	RevokeToken Action = "revoke_token"
	WhatIf      Action = "what_if"
	Plan        Action = "plan"
	Refused     Action = "refused" // somebody tried something without the role for it
)

// Actions are all actions.
var Actions = []Action{Run, Cancel, Approve, Reject, ApproveAll, Hold, Release, Pause, Resume, Create, Enable, Disable, Delete, Destroy, Forget, Reset, Restore, CreateToken, RevokeToken, WhatIf, Plan, Refused}

// Entry is one thing that somebody did.
type Entry struct {
	ID      string         `json:"id"` // begins with the time, so that ids sort by it
	At      time.Time      `json:"at"`
	Action  Action         `json:"action"`
	By      string         `json:"by"`                // a name that somebody only claims is marked
	Proof   identity.Proof `json:"proof"`             // what proves By
	Account string         `json:"account,omitempty"` // of By, as in identity.Identity
	From    string         `json:"from,omitempty"`    // the address of the sender
	Via     Via            `json:"via,omitempty"`     // the way that the request took
	Request string         `json:"request,omitempty"` // id of the request

	Task    string         `json:"task,omitempty"`
	Run     string         `json:"run,omitempty"`
	Plan    string         `json:"plan,omitempty"`    // id of the plan that was decided on
	Content *state.Content `json:"content,omitempty"` // of that plan
	Detail  string         `json:"detail,omitempty"`  // what exactly, in words
	Comment string         `json:"comment,omitempty"` // what the person said
}

// Via is the way that a request took.
type Via string

// The ways.
const (
	API     Via = "api"
	Pages   Via = "pages"
	Command Via = "command" // that works on the store itself
	Invoked Via = "invoke"  // an invocation of the function in AWS
	Remote  Via = "remote"  // the other system that carries out the runs of a task, such as HCP Terraform
)

// Actor is who sends a request, for the entries of what it changes.
type Actor struct {
	identity.Identity
	From    string
	Via     Via
	Request string
	Noted   string // id of the entry that was written for the request
	// Keep returns how long entries are kept; nil for Retention.
	Keep func(context.Context) time.Duration
}

type key struct{}

// With returns a context that carries who acts.
func With(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, key{}, a) }

// Of returns who acts; somebody unknown if nobody has said so.
func Of(ctx context.Context) Actor {
	a, _ := ctx.Value(key{}).(Actor)
	return a
}

// Sender tells senders apart: by their names or, if they have none, by their addresses.
func (a Actor) Sender() string { return cmp.Or(a.Name, a.From) }

// Write returns the change that writes an entry, for the Apply that makes the change it describes. by
// names who acts; the context says what proves that.
func Write(ctx context.Context, e Entry, by string, now time.Time) state.Change {
	return e.of(Of(ctx), by, now, uuid.NewString()).change(ctx)
}

// Note writes the entry of a request that another process may carry out. The context that it returns
// names the entry.
func Note(ctx context.Context, s state.Store, e Entry, by string, now time.Time) (context.Context, error) {
	a := Of(ctx)
	e = e.of(a, by, now, uuid.NewString())
	if _, err := s.Apply(ctx, e.change(ctx)); err != nil {
		return ctx, fmt.Errorf("write who requests it: %w", err)
	}
	a.Noted = e.ID
	return With(ctx, a), nil
}

// Read returns the entry with an id; its ID is "" if there is none.
func Read(ctx context.Context, s state.Store, id string) (Entry, error) {
	if _, ok := timeOf(id); !ok || len(keyOf(id)) > state.MaxKey {
		return Entry{}, nil
	}
	rec, err := state.Read[Entry](ctx, s, keyOf(id))
	return rec.Data, err
}

// of completes an entry.
func (e Entry) of(a Actor, by string, now time.Time, suffix string) Entry {
	if by = state.Line(by); by == "" {
		by = "somebody"
	}
	e.By, e.Proof, e.From, e.Via, e.Request = by, identity.None, state.Line(a.From), a.Via, state.Line(a.Request)
	switch {
	case a.Proven() && state.Line(a.Name) == by:
		e.Proof, e.Account = a.Proof, a.Account
	case a.Proof == identity.Local, a.Via == Command:
		e.Proof = identity.Local
	case a.Proof == identity.Attested:
		e.Proof = identity.Attested
	}
	e.ID = now.UTC().Format(layout) + "-" + suffix
	e.At, e.Comment, e.Detail = now.UTC(), state.Line(e.Comment), state.Line(e.Detail)
	return e
}

// layout of the time in ids. All have the same length, so that they sort.
const layout = "20060102T150405.000000Z"

// change is the change that writes the entry.
func (e Entry) change(ctx context.Context) state.Change {
	keep := time.Duration(Retention)
	if of := Of(ctx).Keep; of != nil {
		keep = of(ctx)
	}
	return state.Create(keyOf(e.ID), state.Encode(e)).Until(e.At.Add(keep))
}

// prefix begins the collections, one for each month.
const prefix = "audit-"

// keyOf returns the key of an entry by its id, such as audit-2026-11/20261126T172439.123456Z-UUID.
func keyOf(id string) string { return prefix + id[:4] + "-" + id[4:6] + "/" + id }
