package hcp

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// made reports which resources the workspace has after a run that has succeeded. An update changes
// none of their addresses. If the token may not read the state, they are not known.
func (s *step) made(ctx context.Context, run Run, changes *state.Changes) {
	if s.job.Made == nil || changes.Add+changes.Destroy == 0 && !changes.Uncounted && !changes.Unknown {
		return
	}
	latest, err := s.api.State(ctx, s.rec.Workspace)
	if err != nil || latest.Run != "" && latest.Run != run.ID {
		s.Log.Debug("the resources of a task are not known", "task", s.job.Task.Name, "error", err)
		return
	}
	if all := addressesOf(latest.Content); all != nil {
		for i := range all {
			all[i] = s.scrub.Clean(all[i])
		}
		s.job.Made(all)
	}
}

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
