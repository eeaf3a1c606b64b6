package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

// heartbeat is how often a stream without news says that it is alive, so that
// proxies keep it open.
const heartbeat = 15 * time.Second

// restAfter is how long nothing must have changed before the API is asked less often.
const restAfter = 5 * time.Minute

// How many pages can be open at a time, in all and from one address. Further ones are
// refused and try again.
const (
	maxStreams   = 200
	maxPerClient = 100
)

// streamTime is how long a stream lasts. The page connects again, so that nobody follows
// a task for longer than their session.
const streamTime = 15 * time.Minute

// digests are those of the topics of an overview: each task that it lists, "" for all
// tasks and what concerns them all, and everything.
type digests map[string]string

// everything is the topic that also has what moves when no task changes, such as the
// gates of Consul. No task has this name.
const everything = "/"

// seconds are those of a duration of minutes, such as 11m30s.
var seconds = regexp.MustCompile(`(\dm)[\d.]+s`)

func digestsOf(o apispec.Overview) digests {
	moves := []any{o.LastGoodTick, o.Gates}
	o.LastGoodTick, o.Gates = nil, nil
	if o.Leader != nil {
		leader := *o.Leader
		leader.Until = time.Time{} // it is renewed all the time
		o.Leader = &leader
	}
	if o.Unhealthy != nil { // it may say for how long
		text := seconds.ReplaceAllString(*o.Unhealthy, "$1")
		o.Unhealthy = &text
	}
	all := make(digests, len(o.Tasks)+1)
	for _, t := range o.Tasks {
		all[t.Name] = digest(t)
	}
	// What concerns all tasks does not depend on those that are listed: o.Digest is of all.
	o.Tasks, o.Counts, o.Next, o.Previous, o.Attention = nil, nil, nil, nil, nil
	all[""] = digest(o)
	all[everything] = digest(append(moves, all[""]))
	return all
}

func digest(v any) string {
	raw, _ := json.Marshal(v) // the answer of the API, which was decoded from JSON
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// news tells open pages that something has changed. It reads only while a page is
// open, once for all of them.
type news struct {
	ctx   context.Context // streams end with it
	every time.Duration   // between two reads
	rest  time.Duration   // the same while nothing changes
	lasts time.Duration   // a stream
	read  func(context.Context) (digests, error)

	mu      sync.Mutex
	streams map[*stream]struct{}
	counts  *counts            // of all scopes; nil for those of this one
	last    digests            // nil until the loop has read something
	overall string             // digest of all that was read last, also by earlier loops
	moved   time.Time          // when that changed
	stop    context.CancelFunc // of the loop, which runs while there are streams
	now     chan struct{}      // reads at once
}

// stream is an open page.
type stream struct {
	topic   string
	seen    string        // the digest of what the page shows; guarded by news.mu
	changed chan struct{} // gets a value when that is not up to date
}

// counts are how many streams there are.
type counts struct {
	mu      sync.Mutex
	all     int
	clients map[string]int // by address
}

// take counts a stream, unless there are too many.
func (c *counts) take(client string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxStreams || c.clients[client] >= maxPerClient {
		return false
	}
	if c.clients == nil {
		c.clients = map[string]int{}
	}
	c.all++
	c.clients[client]++
	return true
}

// give counts a stream that has ended.
func (c *counts) give(client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.clients[client]--; c.clients[client] == 0 {
		delete(c.clients, client)
	}
}

// follow returns a stream whose page shows the topic with this digest, and a function
// that ends it. It is not ok if too many pages are open.
func (n *news) follow(client, topic, seen string) (s *stream, end func(), ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counts == nil {
		n.counts = new(counts)
	}
	if !n.counts.take(client) {
		return nil, nil, false
	}
	if n.streams == nil {
		n.streams, n.now = map[*stream]struct{}{}, make(chan struct{}, 1)
	}
	s = &stream{topic: topic, seen: seen, changed: make(chan struct{}, 1)}
	n.streams[s] = struct{}{}
	if n.last != nil {
		s.tell(n.last)
	}
	if n.stop == nil {
		ctx, stop := context.WithCancel(n.ctx)
		n.stop = stop
		go n.loop(ctx)
	}
	return s, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.streams, s)
		n.counts.give(client)
		if len(n.streams) == 0 && n.stop != nil {
			n.stop()
			n.stop, n.last = nil, nil
		}
	}, true
}

// tell tells the page if it does not show these digests.
func (s *stream) tell(now digests) {
	if _, known := now[s.topic]; !known && len(now) > 0 || s.seen == now[s.topic] {
		return // it is up to date, or was opened while this was read
	}
	s.seen = now[s.topic]
	select {
	case s.changed <- struct{}{}:
	default: // it has not got the last one yet
	}
}

func (n *news) loop(ctx context.Context) {
	for {
		now, err := n.read(ctx)
		if err != nil {
			now = digests{} // every page shows that it is not up to date
		}
		n.tell(ctx, now)
		select {
		case <-ctx.Done():
			return
		case <-time.After(n.pause()):
		case <-n.now:
		}
	}
}

// stir has everything read again at once, after somebody has acted.
func (n *news) stir() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now != nil {
		select {
		case n.now <- struct{}{}:
		default:
		}
	}
}

// tasks returns the tasks of which a page is open.
func (n *news) tasks() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var names []string
	for s := range n.streams {
		if s.topic != "" && s.topic != everything {
			names = append(names, s.topic)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pause is how long the loop waits.
func (n *news) pause() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.moved) > restAfter {
		return n.rest
	}
	return n.every
}

// tell tells the streams whose topics have changed.
func (n *news) tell(ctx context.Context, now digests) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ctx.Err() != nil {
		return // another loop may have begun
	}
	if n.overall != now[""] {
		n.overall, n.moved = now[""], time.Now()
	}
	n.last = now
	for s := range n.streams {
		s.tell(now)
	}
}

// stream tells a page when its topic changes, by server-sent events.
func (p *pages) stream(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	if r.Method == http.MethodHead {
		return
	}
	q := r.URL.Query()
	stream, end, ok := p.news.follow(middleware.Host(r.RemoteAddr), q.Get("topic"), q.Get("seen"))
	if !ok {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer end()
	control := http.NewResponseController(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	over := time.NewTimer(p.news.lasts)
	defer over.Stop()
	// A page whose scripts are of another build loads itself again.
	alive := "event: alive\ndata: " + p.build + "\n\n"
	message := ": open\n\n" + alive
	for {
		if _, err := fmt.Fprint(w, message); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-p.news.ctx.Done():
			return
		case <-r.Context().Done():
			return
		case <-over.C:
			return
		case <-beat.C:
			message = alive
		case <-stream.changed:
			message = "event: changed\ndata: \n\n"
		}
	}
}
