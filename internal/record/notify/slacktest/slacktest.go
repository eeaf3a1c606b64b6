// Package slacktest is a stand-in of Slack's API for tests: channels with messages, threads and metadata.
// It can refuse, delay, garble, and leave out the answers of requests that it has carried out.
package slacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Token is the token of the bot, and Channel the id of the channel in which it is.
const (
	Token   = "xoxb-1234567890-abcdefghij"
	Channel = "C0123456789"
)

// Message is a message in the channel.
type Message struct {
	TS        string          `json:"ts"`
	Text      string          `json:"text"`
	Thread    string          `json:"thread_ts,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Broadcast bool            `json:"-"`
	Texts     []string        `json:"-"` // all that it said, the latest last
}

// Fault changes one request. The zero value does not.
type Fault struct {
	Method     string // the fault waits for a request of this method; "" for any
	Code       string // refuse with this error code
	Status     int    // answer with this status, with nothing done
	RetryAfter string
	Hold       <-chan struct{} // wait for this before anything else
	Lose       bool            // carry the request out, and close the connection without an answer
	Garble     bool            // carry the request out, and answer nonsense
}

// Slack is a workspace with one channel.
type Slack struct {
	URL string

	mu       sync.Mutex
	messages []*Message
	faults   []Fault
	calls    []string
	posted   int
	archived string
	revoked  bool
}

// Start starts a workspace.
func Start(t testing.TB) *Slack {
	s := &Slack{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL + "/api/"
	return s
}

// Next sets the faults of the next requests.
func (s *Slack) Next(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Refuse refuses all requests about the channel with a code; "" ends that.
func (s *Slack) Refuse(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.archived = code
}

// Revoke revokes the token.
func (s *Slack) Revoke(revoked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = revoked
}

// Delete deletes a message, as a person does.
func (s *Slack) Delete(ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.messages {
		if m.TS == ts {
			s.messages = append(s.messages[:i:i], s.messages[i+1:]...)
			return
		}
	}
}

// Messages returns the messages of the channel, or of a thread without the first one.
func (s *Slack) Messages(thread string) (all []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if m.Thread == thread {
			all = append(all, *m)
		}
	}
	return all
}

// Calls returns the methods that were called since the last call of it.
func (s *Slack) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// ServeHTTP implements http.Handler.
func (s *Slack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, method)
	var fault Fault
	if len(s.faults) > 0 && (s.faults[0].Method == "" || s.faults[0].Method == method) {
		fault, s.faults = s.faults[0], s.faults[1:]
	}
	if fault.Hold != nil {
		s.mu.Unlock()
		<-fault.Hold
		s.mu.Lock()
	}
	switch {
	case fault.Status != 0:
		w.Header().Set("Retry-After", fault.RetryAfter)
		w.WriteHeader(fault.Status)
		return
	case fault.Code != "":
		refuse(w, fault.Code)
		return
	case r.Header.Get("Authorization") != "Bearer "+Token:
		refuse(w, "invalid_auth")
		return
	case s.revoked:
		refuse(w, "token_revoked")
		return
	case s.archived != "":
		refuse(w, s.archived)
		return
	}
	answer, code := s.do(method, r)
	switch {
	case fault.Lose:
		panic(http.ErrAbortHandler)
	case fault.Garble:
		_, _ = w.Write([]byte("<html>\x00"))
	case code != "":
		refuse(w, code)
	default:
		answer["ok"] = true
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func refuse(w http.ResponseWriter, code string) {
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": code})
}

func (s *Slack) do(method string, r *http.Request) (answer map[string]any, code string) {
	var in struct {
		Channel, Text, TS string
		Thread            string `json:"thread_ts"`
		Broadcast         bool   `json:"reply_broadcast"`
		Metadata          json.RawMessage
	}
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&in) != nil {
		return nil, "invalid_json"
	}
	channel := in.Channel + r.URL.Query().Get("channel")
	if channel != Channel {
		return nil, "channel_not_found"
	}
	switch method {
	case "chat.postMessage":
		if in.Thread != "" && s.find(in.Thread) == nil {
			return nil, "thread_not_found"
		}
		s.posted++
		ts := fmt.Sprintf("1782900000.%06d", s.posted)
		s.messages = append(s.messages, &Message{TS: ts, Text: in.Text, Thread: in.Thread, Metadata: in.Metadata, Broadcast: in.Broadcast, Texts: []string{in.Text}})
		return map[string]any{"ts": ts, "channel": channel}, ""
	case "chat.update":
		m := s.find(in.TS)
		if m == nil {
			return nil, "message_not_found"
		}
		m.Text, m.Texts = in.Text, append(m.Texts, in.Text)
		return map[string]any{"ts": in.TS}, ""
	case "conversations.history", "conversations.replies":
		var all []*Message
		for _, m := range s.messages {
			if ts := r.URL.Query().Get("ts"); m.Thread == ts || m.TS == ts {
				all = append(all, m)
			}
		}
		return map[string]any{"messages": all}, ""
	}
	return nil, "unknown_method"
}

func (s *Slack) find(ts string) *Message {
	for _, m := range s.messages {
		if m.TS == ts {
			return m
		}
	}
	return nil
}
