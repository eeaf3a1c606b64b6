package web

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// heartbeat is how often a stream without news says that it is alive, so that
// proxies keep it open.
const heartbeat = 15 * time.Second

// maxStreams is how many pages can be open at a time; further ones are refused and
// try again.
const maxStreams = 200

// news tells open pages that something has changed. It reads only while a page is
// open, once for all of them.
type news struct {
	ctx  context.Context // streams end with it
	read func(context.Context) (apispec.Overview, error)

	mu      sync.Mutex
	streams map[chan struct{}]string // by their topics
	digests map[string][sha256.Size]byte
	stop    context.CancelFunc // of the loop, which runs while there are streams
	now     chan struct{}      // reads at once
}

// follow returns a channel that gets a value when the topic changes, and a function
// that ends it. It is not ok if too many pages are open.
func (n *news) follow(topic string) (changed chan struct{}, end func(), ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.streams) >= maxStreams {
		return nil, nil, false
	}
	if n.streams == nil {
		n.streams, n.now = map[chan struct{}]string{}, make(chan struct{}, 1)
	}
	changed = make(chan struct{}, 1)
	n.streams[changed] = topic
	if n.stop == nil {
		ctx, stop := context.WithCancel(n.ctx)
		n.stop = stop
		go n.loop(ctx)
	}
	return changed, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.streams, changed)
		if len(n.streams) == 0 && n.stop != nil {
			n.stop()
			n.stop, n.digests = nil, nil
		}
	}, true
}

func (n *news) loop(ctx context.Context) {
	tick := time.NewTicker(fresh)
	defer tick.Stop()
	for {
		if o, err := n.read(ctx); err == nil {
			n.tell(digests(o))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
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

// tell tells the streams whose topics have changed.
func (n *news) tell(now map[string][sha256.Size]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.digests != nil {
		for changed, topic := range n.streams {
			if n.digests[topic] != now[topic] {
				select {
				case changed <- struct{}{}:
				default: // it has not got the last one yet
				}
			}
		}
	}
	n.digests = now
}

// digests are those of all topics: the tasks, and "" for all of it.
func digests(o apispec.Overview) map[string][sha256.Size]byte {
	o.LastGoodTick = nil
	if o.Leader != nil {
		leader := *o.Leader
		leader.Until = time.Time{} // it is renewed all the time
		o.Leader = &leader
	}
	all := make(map[string][sha256.Size]byte, len(o.Tasks)+1)
	for _, t := range o.Tasks {
		all[t.Name] = digest(t)
	}
	all[""] = digest(o)
	return all
}

func digest(v any) [sha256.Size]byte {
	raw, _ := json.Marshal(v) // the answer of the API, which was decoded from JSON
	return sha256.Sum256(raw)
}

// events tells a page when its topic changes, by server-sent events.
func (p *pages) events(w http.ResponseWriter, r *http.Request) {
	changed, end, ok := p.news.follow(r.URL.Query().Get("topic"))
	if !ok {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer end()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	control := http.NewResponseController(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	message := ": open\n\n"
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
		case <-beat.C:
			message = ": alive\n\n"
		case <-changed:
			message = "event: changed\ndata: \n\n"
		}
	}
}
