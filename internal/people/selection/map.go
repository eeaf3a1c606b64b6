package selection

import (
	"net/url"
	"strconv"
)

// Map is which tasks a map has. Its zero value selects all of them.
type Map struct {
	Service string // tasks that read this service
	Node    string // tasks that were applied with this node, or with a service instance on it
	Key     string // this key
	Entry   string // this config entry, as KIND/NAME
	Peer    string // services of this peer
	Source  string // a source with exactly this text
	Task    string // the task with this name
	Type    string // tasks with resources of this type
	Search  string // tasks of which a text has each of these words
	Limit   int    // at most so many elements of each list; the default is DefaultMapLimit
}

// DefaultMapLimit is how many elements the lists of a map have at most.
const DefaultMapLimit = 100

// fields are the parameters with their values.
func (m *Map) fields() map[string]*string {
	return map[string]*string{"service": &m.Service, "node": &m.Node, "key": &m.Key, "entry": &m.Entry, "peer": &m.Peer, "source": &m.Source, "task": &m.Task, "type": &m.Type, "search": &m.Search}
}

// ParseMap reads the parameters of a map. A wrong limit is the default one.
func ParseMap(q url.Values) (m Map) {
	for name, value := range m.fields() {
		*value = q.Get(name)
	}
	m.Limit, _ = strconv.Atoi(q.Get("limit"))
	return m
}

// Query returns the parameters that ParseMap reads.
func (m Map) Query() url.Values {
	q := url.Values{}
	for name, value := range m.fields() {
		if *value != "" {
			q.Set(name, *value)
		}
	}
	if m.Limit > 0 {
		q.Set("limit", strconv.Itoa(m.Limit))
	}
	return q
}
