package overlay

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// DefinitionOf returns what is kept of a task of the configuration, so that it can be
// destroyed when it is removed. The values of variables that are secret are left out, and what may be a
// secret of other keys. Nothing is verified after that.
func DefinitionOf(cfg *config.Config, t *config.Task, bundle string, secret func(name string) bool) (state.Definition, error) {
	keys, missing, err := t.Kept()
	if err != nil {
		return state.Definition{}, fmt.Errorf("keep the definition of task %s: %w", t.Name, err)
	}
	variables := keys["variables"].(map[string]string)
	for name := range t.Variables {
		if secret(name) {
			variables[name] = "null"
		}
	}
	delete(keys, "enabled")
	delete(keys, "moved_from")
	delete(keys, "verify")
	if len(t.ModuleInputs) == 0 {
		delete(keys, "module_input")
	}
	keys["on_removal"], keys["approve_destroy"] = t.Removal.On, t.Removal.Approve // also if they are those of the configuration
	if t.WorkingDir != filepath.Join(cfg.WorkingDir, t.Name) {
		keys["working_dir"] = t.WorkingDir
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return state.Definition{}, fmt.Errorf("keep the definition of task %s: %w", t.Name, err)
	}
	d := state.Definition{Task: text, Missing: slices.DeleteFunc(missing, func(key string) bool { return strings.HasPrefix(key, "verify.") })}
	if t.ModuleDigest != "" {
		d.Bundle, d.Module = bundle, t.ModuleDigest
	}
	for _, id := range t.Providers {
		if _, ok := cfg.Provider(id); ok {
			d.Providers = append(d.Providers, id)
		}
	}
	return d, nil
}

// Restore returns the configuration with a removed task as it was applied last. The
// blocks of its providers are those of the configuration.
func Restore(cfg *config.Config, name string, d state.Definition) (*config.Config, *config.Task, error) {
	for _, id := range d.Providers {
		if _, ok := cfg.Provider(id); !ok {
			return nil, nil, fmt.Errorf("its provider %s is not in the configuration any more: put the terraform_provider block back, or leave everything as it is with `terrapulse forget %s`", id, name)
		}
	}
	with, problems := cfg.With([]config.Change{{Task: name, Definition: d.Task, Kept: true}})
	if err := problems[name]; err != nil {
		if len(d.Missing) > 0 {
			err = fmt.Errorf("%w. %s may have a secret, so it was not kept: put the block back at the top level, or leave everything as it is with `terrapulse forget %s`", err, strings.Join(d.Missing, ", "), name)
		}
		return nil, nil, err
	}
	t, ok := with.Task(name)
	if !ok {
		return nil, nil, fmt.Errorf("the definition that was kept of task %s is not one of a task", name)
	}
	t.Enabled, t.ModuleDigest = true, d.Module
	return with, t, nil
}
