package hcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// made returns the addresses of the resources that the workspace has after a run that has succeeded; nil if they
// are not known, as with a token that may not read the state. An update changes none of them.
func (s *step) made(ctx context.Context, run Run, changes *state.Changes) []string {
	if changes.Add+changes.Destroy == 0 && !changes.Uncounted && !changes.Unknown {
		return nil
	}
	latest, err := s.api.State(ctx, s.rec.Workspace)
	if err != nil || latest.Run != "" && latest.Run != run.ID {
		s.Log.Debug("the resources of a task are not known", "task", s.job.Task.Name, "error", err)
		return nil
	}
	all := addressesOf(latest.Content)
	for i := range all {
		all[i] = s.scrub.Clean(all[i])
	}
	return all
}

// resources returns how many resources the workspace manages; nil if that is not known. A server that
// does not count may say 0, so the state decides then.
func (s *step) resources(ctx context.Context, ws Workspace) (*int, error) {
	if ws.Resources > 0 {
		return &ws.Resources, nil
	}
	latest, err := s.api.State(ctx, ws.ID)
	switch {
	case err == nil:
		if all := addressesOf(latest.Content); all != nil {
			return new(len(all)), nil
		}
	case errors.Is(err, ErrNoContent): // there may be any number
	case !errors.Is(err, ErrNotFound):
		return nil, s.failed("read the state in the workspace "+ws.Name, err)
	case ws.StateReadable || ws.Run == "" && ws.Version == "":
		return new(0), nil
	}
	return nil, nil
}

// empty reports whether it is known that there are no resources.
func empty(resources *int) bool { return resources != nil && *resources == 0 }

// addressesOf returns the addresses of the managed resources in a state, without their values; nil if
// it cannot be read.
func addressesOf(content []byte) []string {
	var doc struct {
		Resources []struct {
			Module, Mode, Type, Name string
			Instances                []struct {
				Key     json.RawMessage `json:"index_key"`
				Deposed string
			}
		}
	}
	if json.Unmarshal(content, &doc) != nil {
		return nil
	}
	all := []string{}
	for _, r := range doc.Resources {
		if r.Mode != "managed" {
			continue
		}
		address := strings.TrimPrefix(r.Module+"."+r.Type+"."+r.Name, ".")
		for _, i := range r.Instances {
			if i.Deposed != "" {
				continue
			}
			if key := string(i.Key); key == "" || key == "null" {
				all = append(all, address)
			} else {
				all = append(all, address+"["+key+"]")
			}
		}
	}
	return all
}
