package consul

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
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
	r := newReading(c)
	var all []condition.Selection
	for _, q := range queries {
		all = append(all, q.parts...)
	}
	if c.kept != nil {
		gates, marks := c.kept.begin(ctx, c, queries)
		r.whole = true
		defer c.kept.end(r, gates, marks)
	}
	r.load(ctx, all)

	answers := make([]Answer, len(queries))
	for i, q := range queries {
		a := &answers[i]
		if a.Observation, a.Err = r.observe(q.parts); a.Err == nil {
			a.Visibility, a.Err = r.visibility(q.parts)
		}
	}
	return answers
}

// reading reads each view once.
type reading struct {
	client *Client
	chosen map[condition.Selection]choice
	loaded map[condition.View]loaded
	whole  bool // keep the contents, not only what Observe needs of them

	confirmed *sync.Map // see Visibility
}

// choice is what a Chooser has chosen.
type choice struct {
	views   []condition.View
	leftOut []string
}

// loaded is what a view showed. What does not exist is empty.
type loaded struct {
	contents condition.Contents // nil if the reading is not whole
	elements []condition.Element
	filtered bool // access control has hidden something
	err      error
}

func newReading(c *Client) *reading {
	return &reading{client: c, confirmed: new(sync.Map), chosen: map[condition.Selection]choice{}, loaded: map[condition.View]loaded{}}
}

// load reads everything that the parts need: first what is known beforehand, then
// the views that a Chooser chooses.
func (r *reading) load(ctx context.Context, parts []condition.Selection) {
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
func (r *reading) viewsOf(p condition.Selection) ([]condition.View, error) {
	chooser, ok := p.(condition.Chooser)
	if !ok {
		return p.Views(), nil
	}
	list := p.Views()[0]
	if err := r.loaded[list].err; err != nil {
		return nil, err
	}
	c, ok := r.chosen[p]
	if !ok {
		c.views, c.leftOut = chooser.Choose(r.loaded[list].elements)
		r.chosen[p] = c
	}
	return c.views, nil
}

// leftOut returns the names that the parts select, and that cannot be read.
func (r *reading) leftOut(parts []condition.Selection) []string {
	var names []string
	for _, p := range parts {
		names = append(names, r.chosen[p].leftOut...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// each visits what is loaded of the part, or returns why it is not complete.
func (r *reading) each(p condition.Selection, visit func(loaded)) error {
	if f, ok := p.(condition.Fallible); ok && f.Invalid() != nil {
		return &readError{what: "select by regular expression", kind: badQuery, cause: f.Invalid()}
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
		visit(l)
	}
	return nil
}

// observe digests what the parts showed.
func (r *reading) observe(parts []condition.Selection) (Observation, error) {
	var elements []condition.Element
	for _, p := range parts {
		views, _ := r.viewsOf(p) // each returns the error again
		elements = slices.Grow(elements, len(views))
		adapt := func(l loaded) { elements = append(elements, p.Adapt(l.elements)...) }
		joiner, joins := p.(condition.Joiner)
		var joined [][]condition.Element
		if joins {
			adapt = func(l loaded) { joined = append(joined, l.elements) }
		}
		if err := r.each(p, adapt); err != nil {
			return Observation{}, err
		}
		if joins {
			all, err := joiner.Join(joined)
			if err != nil {
				return Observation{}, r.client.doubtful(err)
			}
			elements = append(elements, all...)
		}
	}
	o := observation(elements)
	o.LeftOut = r.leftOut(parts)
	return o, nil
}

func (r *reading) loadViews(ctx context.Context, views []condition.View) {
	todo := make([]condition.View, 0, len(views))
	for _, v := range views {
		if _, known := r.loaded[v]; !known {
			r.loaded[v] = loaded{}
			todo = append(todo, v)
		}
	}
	var (
		mu      sync.Mutex
		gone    = outages{}
		readers sync.WaitGroup
		work    = make(chan condition.View, len(todo))
	)
	for _, v := range todo {
		work <- v
	}
	close(work)
	// A goroutine for each view would grow its stack anew for each.
	for range min(maxReads, len(todo)) {
		readers.Go(func() {
			for v := range work {
				req := v.Request()
				datacenter := req.Scope.Datacenter
				mu.Lock()
				l := loaded{err: gone.in(datacenter)}
				mu.Unlock()
				if l.err == nil {
					l = r.loadView(ctx, v, request{Request: req})
				}
				mu.Lock()
				gone.note(datacenter, l.err)
				r.loaded[v] = l
				mu.Unlock()
			}
		})
	}
	readers.Wait()
}

// loadView reads a view. If access control has hidden everything, that is an
// error: with an empty view, what was made of it would be removed.
func (r *reading) loadView(ctx context.Context, v condition.View, req request) loaded {
	var got condition.Contents
	began := time.Now()
	a, err := r.client.get(ctx, req, func(d *json.Decoder) (err error) {
		got, err = v.Decode(d)
		return err
	})
	l := loaded{filtered: a.filtered && !req.Unfiltered, err: err}
	if err != nil {
		return l
	}
	if d, ok := v.(condition.Doubtful); ok {
		if doubt := d.Doubt(got); doubt != nil {
			l.err = r.client.doubtful(doubt)
			return l
		}
	}
	if got != nil {
		l.elements = got.Elements(v)
	}
	if l.filtered && len(l.elements) == 0 {
		l.err = r.client.denied(req, "access control has hidden everything")
	}
	if l.err == nil {
		r.client.paced.note(v, l.elements, began)
	}
	if r.whole {
		l.contents = got
	}
	return l
}

// outages has, by datacenter, the errors in a row of reads without an answer or a
// leader, so that the other reads do not wait for their timeouts.
type outages map[string][]error

// in returns why the datacenter is not read any more, or nil.
func (o outages) in(datacenter string) error {
	if len(o[datacenter]) < maxReads {
		return nil
	}
	return o[datacenter][0]
}

func (o outages) note(datacenter string, err error) {
	if silent(err) || errors.Is(err, ErrNoLeader) {
		o[datacenter] = append(o[datacenter], err)
	} else {
		delete(o, datacenter)
	}
}

// observation digests the elements, whatever their order. It sorts them.
func observation(elements []condition.Element) Observation {
	slices.SortFunc(elements, func(a, b condition.Element) int {
		if c := cmp.Or(strings.Compare(a.Source.Of, b.Source.Of), strings.Compare(a.Name, b.Name)); c != 0 {
			return c
		}
		return bytes.Compare(a.Sum[:], b.Sum[:])
	})
	h := sha256.New()
	var encoded []byte
	shown, details := make(map[string]string, len(elements)), make(map[string]string, len(elements))
	for _, e := range elements {
		encoded = condition.AppendEncoded(encoded[:0], e.Source.Of, e.Name)
		h.Write(append(encoded, e.Sum[:]...))
		// A key and a service of a schedule may have one name: both are shown.
		shown[e.Name] += hex.EncodeToString(e.Sum[:4])
		details[e.Name] = e.Detail
	}
	return Observation{Digest: hex.EncodeToString(h.Sum(nil)), Elements: shown, Details: details}
}
