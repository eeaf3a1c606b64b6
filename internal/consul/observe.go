package consul

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/terrapulse/terrapulse/internal/condition"
)

// Answer is the observation of one query, or an error.
type Answer struct {
	Observation
	Visibility *Visibility
	Err        error
}

// Observe reads the queries and returns their answers in the same order. Views
// that several queries share are read once, a few at a time. A view that cannot be
// read spoils only the queries that need it.
func (c *Client) Observe(ctx context.Context, queries []Query) []Answer {
	r := newReading(c, contents.elements)
	var all []condition.Selection
	for _, q := range queries {
		all = append(all, q.parts...)
	}
	r.load(ctx, all)

	answers := make([]Answer, len(queries))
	for i, q := range queries {
		var elements []condition.Element
		for _, p := range q.parts {
			err := r.each(p, func(shown []condition.Element) {
				elements = append(elements, p.Adapt(shown)...)
			})
			if err != nil {
				answers[i].Err = err
				break
			}
		}
		if answers[i].Err == nil {
			answers[i].Observation = observation(elements)
			answers[i].Visibility, answers[i].Err = r.visibility(q.parts)
		}
	}
	return answers
}

func (c contents) elements() []condition.Element {
	if c.Contents == nil {
		return nil
	}
	return c.Elements()
}

// reading reads each view once, and keeps what the function keep makes of its
// contents.
type reading[T any] struct {
	client *Client
	keep   func(contents) T
	names  map[condition.View][]string // the sorted names that a view showed
	chosen map[condition.Selection][]condition.View
	loaded map[condition.View]loaded[T]

	confirmed sync.Map // see Visibility
}

type loaded[T any] struct {
	value    T
	sources  []condition.Source
	filtered bool
	err      error
}

func newReading[T any](c *Client, keep func(contents) T) *reading[T] {
	return &reading[T]{client: c, keep: keep, names: map[condition.View][]string{},
		chosen: map[condition.Selection][]condition.View{}, loaded: map[condition.View]loaded[T]{}}
}

// load reads everything that the parts need: first what is known beforehand, then
// the views that a Chooser chooses.
func (r *reading[T]) load(ctx context.Context, parts []condition.Selection) {
	var views []condition.View
	for _, p := range parts {
		views = append(views, p.Views()...)
	}
	r.loadViews(ctx, views)

	views = views[:0]
	for _, p := range parts {
		if _, chooses := p.(condition.Chooser); chooses {
			matched, _ := r.viewsOf(p) // each returns the error again
			views = append(views, matched...)
		}
	}
	r.loadViews(ctx, views)
}

// viewsOf returns the views that hold the part's data, in order of the names.
func (r *reading[T]) viewsOf(p condition.Selection) ([]condition.View, error) {
	chooser, ok := p.(condition.Chooser)
	if !ok {
		return p.Views(), nil
	}
	list := p.Views()[0]
	if err := r.loaded[list].err; err != nil {
		return nil, err
	}
	views, ok := r.chosen[p]
	if !ok {
		views = chooser.Choose(r.names[list])
		r.chosen[p] = views
	}
	return views, nil
}

// each visits what is loaded of the part, or returns why it is not complete.
func (r *reading[T]) each(p condition.Selection, visit func(T)) error {
	if act, err := p.Invalid(); err != nil {
		return &readError{act: act, kind: badQuery, cause: err}
	}
	views, err := r.viewsOf(p)
	if err != nil {
		return err
	}
	for _, v := range views {
		l := r.loaded[v]
		if l.err != nil {
			return l.err
		}
		visit(l.value)
	}
	return nil
}

func (r *reading[T]) loadViews(ctx context.Context, views []condition.View) {
	todo := make([]condition.View, 0, len(views))
	for _, v := range views {
		if _, known := r.loaded[v]; !known {
			r.loaded[v] = loaded[T]{}
			todo = append(todo, v)
		}
	}
	var (
		mu   sync.Mutex
		next int
		wg   sync.WaitGroup
		gone = outages{}
	)
	for range min(maxReads, len(todo)) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < len(todo) {
				v := todo[next]
				next++
				err := gone.in(v.Scope().Datacenter)
				var got contents
				var value T
				var sources []condition.Source
				if err == nil {
					mu.Unlock()
					if got, err = r.client.readView(ctx, v); err == nil {
						if value = r.keep(got); got.Contents != nil {
							sources = got.Sources(v)
						}
					}
					mu.Lock()
					gone.note(v.Scope().Datacenter, err)
				}
				r.loaded[v] = loaded[T]{value, sources, got.filtered, err}
				if names, ok := got.Contents.(condition.Names); ok {
					r.names[v] = names.Names()
				}
			}
		})
	}
	wg.Wait()
}

// outages counts, by datacenter, how often in a row there was no answer or no
// leader, so that the other reads do not wait for their timeouts.
type outages map[string]outage

type outage struct {
	inARow int
	err    error
}

// in returns why the datacenter is not read any more, or nil.
func (o outages) in(datacenter string) error {
	if o[datacenter].inARow < maxReads {
		return nil
	}
	return o[datacenter].err
}

func (o outages) note(datacenter string, err error) {
	if silent(err) || errors.Is(err, ErrNoLeader) {
		o[datacenter] = outage{o[datacenter].inARow + 1, err}
	} else {
		delete(o, datacenter)
	}
}

// observation digests the elements, whatever their order.
func observation(elements []condition.Element) Observation {
	elements = slices.Clone(elements)
	slices.SortFunc(elements, func(a, b condition.Element) int {
		if c := cmp.Or(strings.Compare(a.Of, b.Of), strings.Compare(a.Name, b.Name)); c != 0 {
			return c
		}
		return bytes.Compare(a.Sum[:], b.Sum[:])
	})
	d := condition.NewHash()
	shown := make(map[string]string, len(elements))
	for _, e := range elements {
		d.String(e.Of)
		d.String(e.Name)
		d.Bytes(e.Sum[:])
		// A key and a service of a schedule may have one name: both are shown.
		shown[e.Name] += hex.EncodeToString(e.Sum[:4])
	}
	sum := d.Sum()
	return Observation{Digest: hex.EncodeToString(sum[:]), Elements: shown}
}
