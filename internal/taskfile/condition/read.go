package condition

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Scope is where something is in Consul. Empty fields stand for the agent's own
// datacenter, the client's own namespace, and what no peer has exported.
type Scope struct{ Datacenter, Namespace, Peer string }

func (s Scope) String() string {
	var b strings.Builder
	if s.Datacenter != "" {
		b.WriteString(" in datacenter " + s.Datacenter)
	}
	if s.Namespace != "" {
		b.WriteString(" in namespace " + s.Namespace)
	}
	if s.Peer != "" {
		b.WriteString(" of peer " + s.Peer)
	}
	return b.String()
}

// Selection is one part of what a condition reads. It is comparable. Two selections
// with the same ID read the same.
type Selection interface {
	// ID is the kind and every parameter, see Encode.
	ID() string
	Scope() Scope
	// Family has the gates of the selection.
	Family() *Family
	// Views are the views that can be read without further knowledge.
	Views() []View
	// Adapt returns what this selection makes of the elements of a view, which
	// other selections may share.
	Adapt([]Element) []Element
	// ViewOf is the one of Views that shows the source if the source exists; nil if
	// the selection does not select it.
	ViewOf(Source) View
	// Missing are the rights that prove that a source is gone and not hidden.
	Missing(Source, Reader) []Right
	// Render adds the contents of the views, in their order, to the entries of the
	// variable, which are nil at first.
	Render(into Entries, read []Contents) (Entries, error)
}

// Chooser is a Selection whose only view shows names. The data is in the views of
// the names that it chooses.
type Chooser interface {
	Selection
	// Choose returns the views, and the names that are selected but have no view, because Consul
	// has no address for them (see Addressable).
	Choose(names []Element) (views []View, leftOut []string)
}

// maxPath is the maximum length of a path, in bytes. Servers and proxies refuse longer ones.
const maxPath = 4096

// Addressable reports whether a path leads to what it names. Consul registers services with any
// name, but redirects a path with empty or dotted elements to another one.
func Addressable(p string) bool {
	return path.Clean(p) == strings.TrimSuffix(p, "/") && len(p) <= maxPath
}

// Joiner is a Selection that makes its elements of several views together.
type Joiner interface {
	Selection
	// Join returns the elements. views are those of Views, in their order. The error is a
	// *Doubt if together they prove nothing.
	Join(views [][]Element) ([]Element, error)
}

// Auxiliary is a View that only says something about what other views show: its elements
// are no entries.
type Auxiliary interface {
	View
	Auxiliary()
}

// Doubtful is a View whose answer may say that nothing of its scope can be relied on.
type Doubtful interface {
	View
	// Doubt returns why, nil if there is no reason. Contents are nil if Consul has nothing to show.
	Doubt(Contents) *Doubt
}

// Doubt is why an answer of Consul, which was given, proves nothing.
type Doubt struct {
	Act, Problem, Advice string // for the error
	Person               bool   // it does not pass without a person
}

func (d *Doubt) Error() string { return d.Act + ": " + d.Problem }

// Picker is a Selection that takes only some of what its views show.
type Picker interface {
	Selection
	Picks(Source) bool
}

// Fallible is a Selection that may be impossible to read.
type Fallible interface {
	Selection
	Invalid() error // why; nil if it can be read
}

// View is one read of Consul. It is comparable; equal views are read once.
type View interface {
	Request() Request
	// Gate is a request with the same index that costs less, or Request.
	Gate() Request
	Decode(*json.Decoder) (Contents, error)
	// Empty are the rights that prove that there is nothing to show, and what they
	// are about.
	Empty(Reader) (what string, rights []Right)
	// Suppose returns what the view would show under a what-if, given what it showed. It
	// does not change that.
	Suppose(*Supposition, Contents) Contents
}

// Paced is a View without an index that is polled no more often than this.
type Paced interface {
	View
	Every() time.Duration
}

// Contents are what a view showed. The zero value of the type shows nothing.
type Contents interface {
	// Elements are the parts of the view, sorted by their sources.
	Elements(View) []Element
}

// Request is a read over Consul's HTTP API.
type Request struct {
	Act   string // for errors, such as: read service "web"
	Needs string // the access rights it takes, for errors
	Path  string // unescaped, from /v1
	Scope Scope
	Query url.Values // beside scope, index and wait
	// PartitionOnly is set for what is outside of namespaces.
	PartitionOnly bool
	// Missing allows status 404: the object may not exist.
	Missing bool
	// SlowDenial is the resource of a right that Consul denies only after 10 to 14 seconds; "" if
	// it denies at once.
	SlowDenial string
	// Unfiltered is set if Consul may report that it hides something although it hides nothing
	// of the view: it looks at rights before it applies the filter.
	Unfiltered bool
}

// Element is one part of an observation, with a digest of everything that is
// rendered of it.
type Element struct {
	Source Source
	Name   string // its key in the module's variable
	Sum    [sha256.Size]byte
	Detail string // encoded; "" if there is none
}

// Source is one thing that a view shows. Sources are stored, so that what was
// applied and is missing later can be confirmed as gone.
type Source struct {
	Scope Scope
	Of    string // such as OfService, or the kind of a document
	Name  string
	Node  string // of an instance
	ID    string // of an instance of a peer, each of which is confirmed by itself
}

// The things of which access rights are known.
const (
	OfService = "service"
	OfNode    = "node"
	OfKey     = "key"
	OfPeer    = "service of a peer" // a right to services that a peer exports
)

func (s Source) String() string {
	fields := []string{s.Scope.Datacenter, s.Scope.Namespace, s.Of, s.Name, s.Node}
	if s.Scope.Peer != "" {
		fields = append(fields, s.Scope.Peer, s.ID)
	}
	for i := range fields {
		fields[i] = url.PathEscape(fields[i])
	}
	return strings.Join(fields, "/")
}

// ParseSource reads what String returned.
func ParseSource(text string) (Source, error) {
	fields := strings.Split(text, "/")
	if len(fields) != 5 && len(fields) != 7 {
		return Source{}, fmt.Errorf("source %q has %d fields instead of 5, or 7 with a peer", text, len(fields))
	}
	for i := range fields {
		var err error
		if fields[i], err = url.PathUnescape(fields[i]); err != nil {
			return Source{}, fmt.Errorf("source %q: %w", text, err)
		}
	}
	s := Source{Scope: Scope{Datacenter: fields[0], Namespace: fields[1]}, Of: fields[2], Name: fields[3], Node: fields[4]}
	if len(fields) == 7 {
		s.Scope.Peer, s.ID = fields[5], fields[6]
	}
	return s, nil
}

// Words describe the source in an error.
func (s Source) Words() string {
	if s.Node != "" {
		return fmt.Sprintf("%s %q on node %q%s", s.Of, s.Name, s.Node, s.Scope)
	}
	return fmt.Sprintf("%s %q%s", s.Of, s.Name, s.Scope)
}

// Right is the right of the reader to read one thing or all things of a type.
type Right struct {
	Scope Scope
	Of    string // OfService, OfNode or OfKey, unless Path is set
	Name  string // with Any, the prefix of a key, or of what is below Path
	Any   bool   // all names

	// Path, with a name after it, is a read that Consul denies without the right, also
	// if there is nothing with this name. Needs is the right in words.
	Path, Needs string
}

// Reader is what is known of the reader when something is missing.
type Reader struct {
	Tokenless bool // Consul does not say to this reader that it hides something
	Filtered  bool // Consul has hidden something of the view, or of any view
}

// Family is a part of Consul with gates of its own.
type Family struct {
	Name string
	// Poll and Block return the gates of the views for polls and for blocking queries.
	// If they are nil, each view is its own gate.
	Poll, Block Gates
	// Few is the number of views up to which a blocking query is made for each.
	Few int
	// CheapPoll is set if the gates of Poll cost less than a view: then they are polled
	// for a single view, too.
	CheapPoll bool
	// Loose is set if the index of an answer is that of anything else where there is nothing
	// to show.
	Loose bool
	// NoIndex is set if the answers have no index: a view is its own gate, which is
	// judged by the digest of what it shows.
	NoIndex bool
}

// Gates returns the gates of what is read in a scope.
type Gates func(Scope, []View) []Gate

// Gate is one cheap read whose index says whether views may have changed.
type Gate struct {
	Request
	Key string
	// EveryNamespace is set if the gate covers all namespaces of the datacenter. Such
	// a gate is never the only one.
	EveryNamespace bool
	// Instead are the views to read if access control closes the gate.
	Instead []View
	// Only is set if the gate covers these views and no others.
	Only bool
	// State is set if the answer has no useful index: the mark is a digest of what this view
	// shows. What it cannot show is a mark, too: only the views behind it fail.
	State Stated
}

// Stated is a View of a state, which is small.
type Stated interface {
	View
	State(Contents) string
}

// NoElement is a filter that no element passes: a gate is read for its index.
func NoElement(field string) url.Values {
	return url.Values{"filter": {fmt.Sprintf(`%[1]s == "" and %[1]s != ""`, field)}}
}

// Encode joins strings so that no other strings give the same result.
func Encode(fields ...string) string { return string(AppendEncoded(nil, fields...)) }

// AppendEncoded appends the result of Encode.
func AppendEncoded(b []byte, fields ...string) []byte {
	for _, f := range fields {
		b = strconv.AppendInt(b, int64(len(f)), 10)
		b = append(append(b, ':'), f...)
	}
	return b
}

// DecodeEach decodes the elements of an array one by one, so that the whole
// answer is never in memory.
func DecodeEach[T any](d *json.Decoder, each func(*T)) error {
	start, err := d.Token()
	if err != nil || start == nil { // null means []
		return err
	}
	if start != json.Delim('[') {
		return &json.UnmarshalTypeError{Value: fmt.Sprint(start), Type: reflect.TypeFor[[]T](), Offset: d.InputOffset()}
	}
	for d.More() {
		element := new(T)
		if err := d.Decode(element); err != nil {
			return err
		}
		each(element)
	}
	_, err = d.Token()
	return err
}

// Shorten lists at most five names, so that a line remains one: "a, b and 7 more".
func Shorten(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most-1], ", "), len(names)-most+1)
}
