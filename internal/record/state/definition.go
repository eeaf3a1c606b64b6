package state

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Definition is what a task was applied with. It is kept if the task is to be
// destroyed when it is removed: then no file has its definition any more.
type Definition struct {
	Task   json.RawMessage `json:"task"`             // as the API takes it
	Bundle string          `json:"bundle,omitempty"` // digest of the bundle that has the files of its module
	Module string          `json:"module,omitempty"` // digest of these files
	// Providers are those that had a block. The blocks may hold secrets, so the
	// current ones are used.
	Providers []string `json:"providers,omitempty"`
	// Missing are the keys that are left out because they may have a secret. What the rest of the
	// configuration says about them counts.
	Missing []string `json:"missing,omitempty"`
}

// Request is what a person requested.
type Request struct {
	By      string    `json:"by"`
	Account string    `json:"account,omitempty"` // as in identity.Identity
	At      time.Time `json:"at"`
}

// DefinitionKey returns the key of the definition of a task.
func DefinitionKey(task string) string { return "definition/" + element(task) }

// LoadDefinition reads the definition that a removed task is destroyed with.
func LoadDefinition(ctx context.Context, s Store, task string) (Definition, error) {
	rec, err := Read[Definition](ctx, s, DefinitionKey(task))
	if err != nil {
		return Definition{}, fmt.Errorf("read what task %s was applied with: %w", task, err)
	}
	if !rec.Exists() {
		return Definition{}, fmt.Errorf("read what task %s was applied with: %w", task, ErrNotFound)
	}
	return rec.Data, nil
}
