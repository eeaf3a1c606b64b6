package consul

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/terrapulse/terrapulse/internal/config"
)

// Answer is what Observe says of one query: an observation or why there is none.
type Answer struct {
	Observation
	Visibility *Visibility
	Err        error
}

// Observe reads the queries and returns their answers in the same order. Views
// that several queries share are read once, a few at a time; what cannot be
// read spoils only the queries that need it.
func (c *Client) Observe(ctx context.Context, queries []Query) []Answer {
	r := newReading(c, view.elements)
	var all []part
	for _, q := range queries {
		all = append(all, q.parts...)
	}
	r.load(ctx, all)

	answers := make([]Answer, len(queries))
	for i, q := range queries {
		var elements []element
		for _, p := range q.parts {
			err := r.each(p, func(shown []element) {
				elements = append(elements, p.adapt(shown)...)
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

// reading reads each view once, and keeps what the function keep makes of its
// contents.
type reading[T any] struct {
	client *Client
	keep   func(view, contents) T
	names  map[view][]string // the sorted names that a namesView showed
	loaded map[view]loaded[T]

	confirmed sync.Map // see Visibility
}

type loaded[T any] struct {
	value    T
	sources  []source
	filtered bool
	err      error
}

func newReading[T any](c *Client, keep func(view, contents) T) *reading[T] {
	return &reading[T]{client: c, keep: keep, names: map[view][]string{}, loaded: map[view]loaded[T]{}}
}

// load reads everything that the parts need: what is known beforehand, then
// the services that a regular expression chooses.
func (r *reading[T]) load(ctx context.Context, parts []part) {
	var views []view
	for _, p := range parts {
		views = append(views, p.views()...)
	}
	r.loadViews(ctx, views)

	views = views[:0]
	for _, p := range parts {
		if p.byRegexp() {
			matched, _ := r.viewsOf(p) // its error is met again when it is asked for
			views = append(views, matched...)
		}
	}
	r.loadViews(ctx, views)
}

// viewsOf returns the views that hold the part's data, in order of the names.
func (r *reading[T]) viewsOf(p part) ([]view, error) {
	if !p.byRegexp() {
		return p.views(), nil
	}
	list := p.views()[0]
	if err := r.loaded[list].err; err != nil {
		return nil, err
	}
	if p.invalid != nil {
		return nil, p.invalid
	}
	var names []string
	for _, name := range r.names[list] {
		if p.regexp.MatchString(name) {
			names = append(names, name)
		}
	}
	return p.serviceViews(names), nil
}

// each visits what is loaded of the part, or returns why it is not complete.
func (r *reading[T]) each(p part, visit func(T)) error {
	if p.invalid != nil {
		return p.invalid
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

func (r *reading[T]) loadViews(ctx context.Context, views []view) {
	todo := make([]view, 0, len(views))
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
				err := gone.in(v.scope.datacenter)
				var got contents
				var value T
				var sources []source
				if err == nil {
					mu.Unlock()
					if got, err = r.client.readView(ctx, v); err == nil {
						value, sources = r.keep(v, got), v.sources(got)
					}
					mu.Lock()
					gone.note(v.scope.datacenter, err)
				}
				r.loaded[v] = loaded[T]{value, sources, got.filtered, err}
				if v.kind == namesView {
					r.names[v] = slices.Sorted(maps.Keys(got.names))
				}
			}
		})
	}
	wg.Wait()
}

// outages counts, by datacenter, how often in a row there was no answer or no
// leader, so that ten thousand reads need not each wait to hear so.
type outages map[string]outage

type outage struct {
	inARow int
	err    error
}

// in returns why the datacenter need not be asked any more, or nil.
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

// element is one part of an observation, and a digest of all that is rendered
// of it.
type element struct {
	kind viewKind
	name string
	sum  [sha256.Size]byte
}

func (v view) elements(got contents) []element {
	var elements []element
	switch v.kind {
	case serviceView:
		for _, i := range got.instances {
			s := i.service(nil)
			elements = append(elements, element{serviceView, s.Key(), s.sum()})
		}
	case namesView:
		// Tags trigger nothing.
		for name := range got.names {
			elements = append(elements, element{kind: namesView, name: name})
		}
	default:
		for _, p := range got.pairs {
			elements = append(elements, element{keyView, p.Key, sha256.Sum256(p.Value)})
		}
	}
	return elements
}

// adapt turns what a view shows, which parts may share, into what this part
// makes of it.
func (p part) adapt(elements []element) []element {
	switch {
	case p.kind == config.KindCatalogServices:
		return slices.DeleteFunc(slices.Clone(elements), func(e element) bool { return !p.regexp.MatchString(e.name) })
	case len(p.userMeta) > 0:
		elements = slices.Clone(elements)
		for i := range elements {
			d := newDigest()
			d.bytes(elements[i].sum[:])
			d.stringMap(p.userMeta)
			elements[i].sum = d.sum()
		}
	}
	return elements
}

// observation digests the elements, whatever their order.
func observation(elements []element) Observation {
	elements = slices.Clone(elements)
	slices.SortFunc(elements, func(a, b element) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.name, b.name),
			slices.Compare(a.sum[:], b.sum[:]))
	})
	d := newDigest()
	shown := make(map[string]string, len(elements))
	for _, e := range elements {
		d.number(uint64(e.kind))
		d.string(e.name)
		d.bytes(e.sum[:])
		// Two elements of one name are rare (a key and a service of a schedule):
		// the short digests of both then stand for it.
		shown[e.name] += hex.EncodeToString(e.sum[:4])
	}
	sum := d.sum()
	return Observation{Digest: hex.EncodeToString(sum[:]), Elements: shown}
}

func (s *Service) sum() [sha256.Size]byte {
	d := newDigest()
	d.string(s.ID)
	d.string(s.Name)
	d.string(s.Kind)
	d.string(s.Address)
	d.number(uint64(s.Port))
	d.stringMap(s.Meta)
	d.number(uint64(len(s.Tags)))
	for _, tag := range s.Tags {
		d.string(tag)
	}
	d.string(s.Namespace)
	d.string(s.Status)
	d.string(s.Node)
	d.string(s.NodeID)
	d.string(s.NodeAddress)
	d.string(s.NodeDatacenter)
	d.stringMap(s.NodeTaggedAddresses)
	d.stringMap(s.NodeMeta)
	// Also where the module does not declare ports: that is not known here.
	for _, name := range slices.Sorted(maps.Keys(s.Ports)) {
		d.string(name)
		d.number(uint64(s.Ports[name]))
	}
	return d.sum()
}

// digest hashes fields, each after its length, so that no other fields give
// the same bytes.
type digest struct {
	h       hash.Hash
	scratch []byte
}

func newDigest() *digest { return &digest{h: sha256.New()} }

func (d *digest) number(n uint64) {
	d.scratch = binary.BigEndian.AppendUint64(d.scratch[:0], n)
	d.h.Write(d.scratch)
}

func (d *digest) string(s string) {
	d.number(uint64(len(s)))
	d.scratch = append(d.scratch[:0], s...)
	d.h.Write(d.scratch)
}

func (d *digest) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.h.Write(b)
}

func (d *digest) stringMap(m map[string]string) {
	d.number(uint64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		d.string(key)
		d.string(m[key])
	}
}

func (d *digest) sum() (sum [sha256.Size]byte) {
	d.h.Sum(sum[:0])
	return sum
}
