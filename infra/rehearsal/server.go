package rehearsal

import (
	"encoding/json"
	"os/exec"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// server is a program that answers each line of JSON with one, for all tests of this process. It starts with the
// first request, and ends with this process.
type server struct {
	command func(testing.TB) *exec.Cmd

	mu       sync.Mutex
	requests *json.Encoder // nil before the first request
	answers  *json.Decoder
	said     *testtools.Output
}

// request requests something, and decodes the result.
func (s *server) request(t testing.TB, asked, into any) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		s.start(t)
	}
	var answer struct {
		Result  json.RawMessage
		Problem string
	}
	err := s.requests.Encode(asked)
	if err == nil {
		err = s.answers.Decode(&answer)
	}
	if err != nil {
		s.requests = nil // the next test starts it again
		t.Fatalf("%v\n%s", err, s.said)
	}
	if answer.Problem != "" {
		t.Fatal(answer.Problem)
	}
	if err := json.Unmarshal(answer.Result, into); err != nil {
		t.Fatalf("%v in:\n%s", err, answer.Result)
	}
}

func (s *server) start(t testing.TB) {
	t.Helper()
	cmd := s.command(t)
	said := &testtools.Output{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	s.requests, s.answers, s.said = json.NewEncoder(in), json.NewDecoder(out), said
}
