package hcptest

import (
	"strconv"
	"strings"
	"sync"
)

// log is the output of Terraform. It begins with STX and, when it is complete, ends with ETX.
type log struct {
	path string // signed

	mu     sync.Mutex
	text   []byte
	closed bool
}

func (s *Server) newLog() *log {
	l := &log{}
	l.path = s.sign("log", func(c *call) (answer, error) {
		q := c.r.URL.Query()
		offset, _ := strconv.Atoi(q.Get("offset"))
		limit, err := strconv.Atoi(q.Get("limit"))
		if err != nil {
			limit = 1 << 20
		}
		return answer{raw: l.slice(offset, limit)}, nil
	})
	return l
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.text) == 0 {
		l.text = append(l.text, 0x02)
	}
	l.text = append(l.text, p...)
	return len(p), nil
}

// String returns the log without its frame.
func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Trim(string(l.text), "\x02\x03")
}

func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.text) > 0 && !l.closed {
		l.text, l.closed = append(l.text, 0x03), true
	}
}

func (l *log) slice(offset, limit int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := min(max(offset, 0), len(l.text))
	return append([]byte{}, l.text[from:min(from+limit, len(l.text))]...)
}
