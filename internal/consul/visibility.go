package consul

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Consul hides what a reader has no right to read, and does not say so to a reader
// without a token. So an entry that is missing from an answer is gone only if the
// reader is known to have the right to read it. Confirm proves that right, see
// rights.go.

// Visibility is what a reading showed. It finds out whether Consul's access control
// hides more. A nil Visibility confirms everything.
type Visibility struct {
	client   *Client
	parts    []condition.Selection
	shown    [][]condition.Element
	empty    []emptyView
	filtered []condition.View // that show something

	// whole is set if the reading is applied: then a view must be empty after the
	// proof, too. A right may be given between the read and its proof.
	whole bool

	// peers are the parts that are read from peers of the cluster, and imported a digest of what
	// they showed.
	peers    []condition.Selection
	imported string

	// confirmed are the rights that are proven. All that is read together shares
	// them: when a node has gone, many tasks need the same proof.
	confirmed *sync.Map
}

// emptyView is a view that shows nothing of a part.
type emptyView struct {
	condition.View
	part     condition.Selection
	filtered bool
}

// place is where something is shown.
type place struct {
	part condition.Selection
	view condition.View
}

// visibility returns what was loaded of the parts, which must be complete.
func (r *reading) visibility(parts []condition.Selection) (*Visibility, error) {
	v := &Visibility{client: r.client, parts: parts, whole: r.whole, confirmed: r.confirmed}
	for _, p := range parts {
		views, err := r.viewsOf(p)
		if err != nil {
			return nil, err
		}
		_, chooses := p.(condition.Chooser)
		if chooses {
			names := p.Views()[0]
			if r.loaded[names].filtered {
				v.filtered = append(v.filtered, names)
			}
			if !slices.ContainsFunc(views, func(view condition.View) bool { return len(r.loaded[view].elements) > 0 }) {
				v.empty = append(v.empty, emptyView{names, p, r.loaded[names].filtered})
			}
		}
		for _, seen := range views {
			if _, aux := seen.(condition.Auxiliary); aux {
				continue
			}
			l := r.loaded[seen]
			shown := l.elements
			if s, ok := p.(condition.Picker); ok {
				shown = slices.DeleteFunc(slices.Clone(shown), func(e condition.Element) bool { return !s.Picks(e.Source) })
			}
			v.shown = append(v.shown, shown)
			if l.filtered {
				v.filtered = append(v.filtered, seen)
			}
			if len(shown) == 0 && !chooses {
				v.empty = append(v.empty, emptyView{seen, p, l.filtered})
			}
		}
		if p.Scope().Peer != "" {
			v.peers = append(v.peers, p)
		}
	}
	if len(v.peers) > 0 {
		o, err := r.observe(v.peers)
		if err != nil {
			return nil, err
		}
		v.imported = o.Digest
	}
	return v, nil
}

// Sources are what the reading showed, sorted, in a form that can be stored. Confirm
// compares a later reading with them.
func (v *Visibility) Sources() []string {
	if v == nil {
		return nil
	}
	var sources []string
	for _, view := range v.shown {
		for _, e := range view {
			sources = append(sources, e.Source.String())
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// Hidden says what access control hides from the token; "" if nothing is known to be
// hidden. Consul says so only to readers with a token.
func (v *Visibility) Hidden() string {
	if v == nil || len(v.filtered) == 0 {
		return ""
	}
	r := v.filtered[0].Request()
	more := ""
	if n := len(v.filtered) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s%s: Consul's access control hides a part of it from the token (consul.token, CONSUL_HTTP_TOKEN); "+
		"to read everything it needs %s", r.Act, more, r.Needs)
}

// Confirm proves that what is missing now is gone, and that views that show nothing
// are empty. Otherwise it returns an error, for which IsForbidden may hold. before
// are the Sources of what was last applied. It sends requests only if something is
// missing or empty.
func (v *Visibility) Confirm(ctx context.Context, before []string) error {
	if v == nil {
		return nil
	}
	shown := map[condition.Source]bool{}
	for _, view := range v.shown {
		for _, e := range view {
			shown[e.Source] = true
		}
	}
	// What is visible proves the right to its service and to its node. Nothing
	// needs a proof as long as nothing is missing.
	proven := sync.OnceValue(func() map[condition.Right]bool {
		all := map[condition.Right]bool{}
		for s := range shown {
			if s.Node != "" {
				all[condition.Right{Scope: s.Scope, Of: s.Of, Name: s.Name}] = true
				all[condition.Right{Scope: s.Scope, Of: condition.OfNode, Name: s.Node}] = true
			}
		}
		return all
	})
	var questions []question
	asked := map[condition.Right]bool{}
	ask := func(right condition.Right, missing string) {
		if _, known := v.confirmed.Load(right); !known && !asked[right] {
			asked[right] = true
			questions = append(questions, question{right, missing})
		}
	}
	reader := condition.Reader{Tokenless: v.client.Tokenless(), Filtered: len(v.filtered) > 0}
	known := map[place]bool{} // views that showed something of a part
	for _, text := range before {
		s, err := condition.ParseSource(text)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(v.parts, func(p condition.Selection) bool { return p.ViewOf(s) != nil })
		if i < 0 {
			continue
		}
		if len(v.empty) > 0 {
			for _, p := range v.parts[i:] {
				known[place{p, p.ViewOf(s)}] = true
			}
		}
		if shown[s] {
			continue
		}
		for _, right := range v.parts[i].Missing(s, reader) {
			if !proven()[right] {
				ask(right, s.Words()+", which was applied,")
			}
		}
	}
	for _, e := range v.empty {
		// The rights to what was applied are proven by name above.
		if known[place{e.part, e.View}] {
			continue
		}
		what, rights := e.Empty(condition.Reader{Tokenless: reader.Tokenless, Filtered: e.filtered})
		for _, right := range rights {
			ask(right, what)
		}
	}
	if err := v.client.answerAll(ctx, questions, v.confirmed); err != nil || !v.whole || len(questions) == 0 {
		return err
	}
	if slices.ContainsFunc(questions, func(q question) bool { return q.Of == condition.OfPeer }) {
		if err := v.settled(ctx); err != nil {
			return err
		}
	}
	return v.client.stillEmpty(ctx, v.empty)
}

// Lacks returns why the reader may not read what a view that is empty now will show
// later. named is about a right to a name or prefix that a task watches. other is about a
// right to everything of a kind: a reader with rights to a part of it may see all that the
// task needs. Both are nil if nothing is empty.
func (v *Visibility) Lacks(ctx context.Context) (named, other error) {
	if v == nil {
		return nil, nil
	}
	for _, e := range v.empty {
		what, rights := e.Empty(condition.Reader{Tokenless: true, Filtered: true})
		for _, right := range rights {
			if _, known := v.confirmed.Load(right); known {
				continue
			}
			err := v.client.answer(ctx, question{right, what})
			if err == nil {
				v.confirmed.Store(right, true)
			}
			if right.Name != "" || !IsForbidden(err) {
				named = cmp.Or(named, err)
			} else {
				other = cmp.Or(other, err)
			}
		}
	}
	return named, other
}

// stillEmpty reads views again and returns an error if one is not empty any more.
func (c *Client) stillEmpty(ctx context.Context, views []emptyView) error {
	r := newReading(c)
	parts := list.Map(views, func(e emptyView) condition.Selection { return e.part })
	r.load(ctx, parts)
	if _, err := r.observe(parts); err != nil {
		return err
	}
	now, err := r.visibility(parts)
	if err != nil {
		return err
	}
	empty := make(map[place]bool, len(now.empty))
	for _, e := range now.empty {
		empty[place{e.part, e.View}] = true
	}
	for _, e := range views {
		if !empty[place{e.part, e.View}] {
			return c.reappeared(request{Request: e.Request()})
		}
	}
	return nil
}
