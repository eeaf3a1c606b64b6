// Package outboxtest checks events in tests.
package outboxtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Schemas are the published JSON Schemas of events. They are safe for concurrent use.
type Schemas struct {
	dir string

	mu       sync.Mutex
	compiled map[outbox.Kind]*jsonschema.Schema
}

// New returns the schemas in docs/events.
func New(t testing.TB) *Schemas {
	t.Helper()
	return In(filepath.Join(testtools.Root(t), "docs", "events"))
}

// In returns the schemas in a folder.
func In(dir string) *Schemas {
	return &Schemas{dir: dir, compiled: map[outbox.Kind]*jsonschema.Schema{}}
}

// Check returns what is wrong with an event in JSON: its fields must be those of its kind, and no
// others.
func (s *Schemas) Check(kind outbox.Kind, event []byte) error {
	schema, err := s.of(kind)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(event))
	if err != nil {
		return err
	}
	if err := schema.Validate(doc); err != nil {
		return fmt.Errorf("the event is not as docs/events/%s.schema.json says: %w: %s", kind, err, event)
	}
	return nil
}

// CheckEvent is Check for an event that no sink has encoded.
func (s *Schemas) CheckEvent(e outbox.Event) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.Check(e.Kind, text)
}

func (s *Schemas) of(kind outbox.Kind) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema := s.compiled[kind]; schema != nil {
		return schema, nil
	}
	path := filepath.Join(s.dir, string(kind)+".schema.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// Receivers must expect further fields; tests must not.
	doc.(map[string]any)["additionalProperties"] = false
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(path, doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.compiled[kind] = schema
	return schema, nil
}
