package hcptest

import (
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Fault makes requests fail.
type Fault struct {
	// Request says which requests: method and path below /api/v2, in which * is one element, such as
	// "POST runs" or "POST runs/*/actions/apply". Signed URLs are "PUT signed/upload-*",
	// "GET signed/log-*" and "GET signed/plan-*". Empty means all.
	Request string

	Status int         // answer with this status
	Header http.Header // and these headers
	Title  string      // and this error; by default the text of the status
	Lost   bool        // break the connection instead of an answer
	After  bool        // after the request has had its effect; by default it has none

	Times int             // how often; 0 is once, and a negative number is until the end
	Hold  <-chan struct{} // the request waits for this first
}

// RateLimited makes requests fail because of the rate limit.
func RateLimited(request string, times int) Fault {
	return Fault{Request: request, Status: http.StatusTooManyRequests, Times: times,
		Header: http.Header{"X-Ratelimit-Limit": {"30"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"0.01"}}}
}

type fault struct {
	Fault
	left int
}

// Fail makes requests fail until stop is called, or as often as the fault says.
func (s *Server) Fail(f Fault) (stop func()) {
	one := &fault{Fault: f, left: max(f.Times, 1)}
	if f.Times < 0 {
		one.left = -1
	}
	s.locked(func() { s.faults = append(s.faults, one) })
	return func() { s.locked(func() { one.left = 0 }) }
}

// observe notes a request and returns what is wrong with it.
func (s *Server) observe(name string) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, name)
	s.changed.Broadcast()
	for _, f := range s.faults {
		if f.left != 0 && matches(f.Request, name) {
			if f.left > 0 {
				f.left--
			}
			return f
		}
	}
	return &fault{}
}

func matches(pattern, name string) bool {
	matched, err := path.Match(pattern, name)
	return pattern == "" || matched && err == nil
}

// delayed waits as long as the fault holds requests, and reports whether the server ended meanwhile.
func (f *fault) delayed(s *Server) bool {
	if f.Hold == nil {
		return false
	}
	select {
	case <-f.Hold:
		return false
	case <-s.ctx.Done():
		return true
	}
}

func (f *fault) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/vnd.api+json")
	maps.Copy(w.Header(), f.Header)
	w.WriteHeader(f.Status)
	title := f.Title
	if title == "" {
		title = strings.ToLower(http.StatusText(f.Status))
	}
	json.NewEncoder(w).Encode(object{"errors": []object{{"status": strconv.Itoa(f.Status), "title": title}}})
}

// Requests are the requests so far, such as "GET runs/run-0000000000000007".
func (s *Server) Requests() (all []string) {
	s.locked(func() { all = append(all, s.requests...) })
	return all
}

// Count is how many requests there were of this kind, written as in Fault. Empty counts all.
func (s *Server) Count(request string) (n int) {
	for _, r := range s.Requests() {
		if matches(request, r) {
			n++
		}
	}
	return n
}

// Hold makes runs stay in a status.
type Hold struct {
	s        *Server
	status   string
	released bool
}

// Hold makes each run that comes to a status stay there, until Release. Each status of a run can be
// held, also those in which a person decides: the run cannot be confirmed before the hold ends.
func (s *Server) Hold(status string) *Hold {
	h := &Hold{s: s, status: status}
	s.locked(func() { s.holds = append(s.holds, h) })
	return h
}

// HoldAction makes an action (apply, discard, cancel or upload) have its effect only after Release,
// although it is accepted at once: in reality, too, it is only queued.
func (s *Server) HoldAction(action string) *Hold { return s.Hold("action " + action) }

func (s *Server) late(action string) bool {
	return slices.ContainsFunc(s.holds, func(h *Hold) bool { return !h.released && h.status == "action "+action })
}

// Release lets the runs go on.
func (h *Hold) Release() {
	h.s.locked(func() {
		h.released = true
		h.s.changed.Broadcast()
	})
}

func (s *Server) held(r *run) bool {
	return slices.ContainsFunc(s.holds, func(h *Hold) bool { return !h.released && h.status == r.status })
}
