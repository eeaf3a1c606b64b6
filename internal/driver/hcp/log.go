package hcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// copyLog copies the output of a plan or an apply into the output of the run, and returns
// it. An output that cannot be read ends no run.
func (s *step) copyLog(ctx context.Context, p Phase) string {
	text, err := s.log(ctx, p)
	if err != nil {
		s.say("Terraform's output cannot be read from HCP Terraform: %v.", err)
		return ""
	}
	if text != "" {
		io.WriteString(s.job.Output, strings.TrimRight(text, "\n")+"\n")
	}
	return text
}

// log returns the output of a plan or an apply so far, without secrets.
func (s *step) log(ctx context.Context, p Phase) (string, error) {
	text, err := readLog(ctx, s.api, p)
	return s.scrub.Clean(text), err
}

func readLog(ctx context.Context, api API, p Phase) (string, error) {
	if p.LogURL == "" {
		return "", nil
	}
	raw, err := api.Log(ctx, p.LogURL)
	if err != nil {
		return "", err
	}
	return plainLog(raw), nil
}

// The characters around an output, before and after its text.
const (
	startOfText = "\x02"
	endOfText   = "\x03"
)

// plainLog returns an output as people read it. A workspace with structured output has
// lines in JSON, as `terraform plan -json` prints them.
func plainLog(raw []byte) string {
	raw = bytes.TrimSuffix(bytes.TrimPrefix(raw, []byte(startOfText)), []byte(endOfText))
	var text strings.Builder
	for line := range strings.Lines(strings.ToValidUTF8(string(raw), "\uFFFD")) {
		line = strings.TrimRight(line, "\r\n")
		if event, ok := eventOf(line); ok {
			line = event.text()
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}

// event is a line of structured output.
type event struct {
	Level      string `json:"@level"`
	Message    string `json:"@message"`
	Diagnostic *struct {
		Severity, Summary, Detail string
		Address                   string
	} `json:"diagnostic"`
}

func eventOf(line string) (event, bool) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Message == "" {
		return e, false
	}
	return e, true
}

func (e event) text() string {
	if e.Diagnostic == nil || e.Diagnostic.Detail == "" {
		return e.Message
	}
	return e.Message + "\n" + e.Diagnostic.Detail
}

// errorIn returns the first error in an output.
func errorIn(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimLeft(plain(line), "│╷ ")
		after, ok := strings.CutPrefix(line, "Error: ")
		if !ok {
			continue
		}
		parts := []string{after}
		for _, next := range lines[i+1:] {
			next = plain(next)
			if strings.HasPrefix(next, "╵") || strings.HasPrefix(strings.TrimLeft(next, "│ "), "Error: ") || len(parts) > 12 {
				break
			}
			if next = strings.TrimSpace(strings.TrimLeft(next, "│ ")); next != "" {
				parts = append(parts, next)
			}
		}
		return state.Cut(strings.Join(parts, " "))
	}
	return ""
}

// plain returns a line without the codes of colors.
func plain(line string) string {
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		if !found {
			return line
		}
		_, rest, ended := strings.Cut(after, "m")
		if !ended {
			return before
		}
		line = before + rest
	}
}
