package examine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// member is an instance of a cluster, as it describes itself.
type member struct {
	state.Instance
	silent time.Duration // since its latest record; 0 if it lives
}

// read reads the records. It returns nil if there is no store yet.
func (e *examination) read(ctx context.Context) (*records, error) {
	var place stores.Place
	var err error
	if e.Store != "" && e.cfg.HighAvailability == nil {
		place, err = stores.At(ctx, e.Store)
	} else {
		place, err = stores.Of(ctx, e.cfg)
	}
	if err != nil {
		return nil, err
	}
	if place.Kind == "consul" && e.answers() != nil {
		return nil, notChecked("the store is in Consul, which does not answer")
	}
	store, err := place.Read(ctx)
	if place.File != "" && errors.Is(err, fs.ErrNotExist) {
		return &records{place: place}, nil
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	r := &records{place: place}
	if r.Overview, err = (overview.Reader{Store: store, Now: e.Now}).Recorded(ctx); err != nil {
		return nil, err
	}
	members, err := state.ReadPeers[state.Instance](ctx, store, state.InstancePrefix)
	if err != nil {
		return nil, fmt.Errorf("list the instances of the cluster: %w", err)
	}
	for _, m := range members {
		is := member{Instance: m.Data}
		if now := e.Now(); !m.Data.Lives(now) {
			is.silent = now.Sub(m.Data.Seen)
		}
		r.instances = append(r.instances, is)
	}
	return r, nil
}

// checkStore reads the store, and looks whether this user may write it.
func (e *examination) checkStore(context.Context) (string, error) {
	r, err := e.records()
	if err != nil {
		return "", err
	}
	name := r.place.Where
	if r.place.File == "" {
		return fmt.Sprintf("%s:%s can be read, %s", r.place.Kind, name, tasksOf(len(r.Tasks))), nil
	}
	if _, err := os.Stat(r.place.File); errors.Is(err, fs.ErrNotExist) {
		dir := existing(filepath.Dir(r.place.File))
		if !writable(dir) {
			return "", fmt.Errorf("%s is not there yet, and this user may not write to %s", name, dir)
		}
		return name + " is not there yet: start creates it", nil
	}
	for _, path := range []string{r.place.File, filepath.Dir(r.place.File)} {
		if !writable(path) {
			return "", fmt.Errorf("this user may not write to %s", path)
		}
	}
	return fmt.Sprintf("%s can be read and written, %s", name, tasksOf(len(r.Tasks))), nil
}

// checkInstances says which instances run on the store.
func (e *examination) checkInstances(context.Context) (string, error) {
	r, err := e.records()
	if err != nil {
		return "", notChecked("the store cannot be read")
	}
	leader := ""
	if r.Leader != nil {
		leader = r.Leader.Owner
	}
	if e.cfg.HighAvailability != nil {
		return clusterFound(r.instances, leader)
	}
	if leader == "" {
		return "none runs on the store", nil
	}
	return leader + " leads on the store", nil
}

// clusterFound judges the instances of a cluster.
func clusterFound(all []member, leader string) (string, error) {
	var found, wrong []string
	versions, programs, live := map[string]bool{}, map[string]bool{}, 0
	leads := false
	for _, m := range all {
		words := fmt.Sprintf("%s (%s, %s)", m.ID, m.Version, m.Terraform)
		if m.silent > 0 {
			wrong = append(wrong, fmt.Sprintf("%s is silent for %s", m.ID, m.silent.Round(time.Second)))
			found = append(found, words)
			continue
		}
		if m.Owner == leader {
			leads, words = true, words+" leads"
		}
		live++
		versions[m.Version], programs[m.Terraform] = true, true
		found = append(found, words)
	}
	for _, m := range all {
		if at := slices.IndexFunc(all, func(other member) bool { return other.Owner == leader }); at >= 0 && m.silent == 0 {
			if differ := config.DifferingParts(m.Parts, all[at].Parts); len(differ) > 0 {
				wrong = append(wrong, fmt.Sprintf("%s gets no runs, because its files differ from those of %s in: %s", m.ID, all[at].ID, strings.Join(differ, ", ")))
			}
		}
	}
	switch {
	case len(versions) > 1:
		wrong = append(wrong, "the versions differ")
	case len(programs) > 1:
		wrong = append(wrong, "the versions of Terraform differ")
	}
	if live > 0 && !leads {
		wrong = append(wrong, "none leads")
	}
	words := strings.Join(found, ", ")
	switch {
	case len(wrong) > 0:
		return "", fmt.Errorf("%s: %s", strings.Join(wrong, ", "), words)
	case len(all) == 0:
		return "none runs in the cluster", nil
	}
	return words, nil
}

// checkPaused says whether tasks run, or who has paused them.
func (e *examination) checkPaused(context.Context) (string, error) {
	r, err := e.records()
	switch {
	case err != nil:
		return "", notChecked("the store cannot be read")
	case r.Paused != nil:
		return fmt.Sprintf("paused by %s since %s: nothing is applied until `terrapulse resume`", r.Paused.By, clock.UTC(r.Paused.Since)), nil
	}
	return "no", nil
}

// checkTasks counts the tasks in each phase, and fails if there is one that needs a person.
func (e *examination) checkTasks(context.Context) (string, error) {
	r, err := e.records()
	if err != nil {
		return "", notChecked("the store cannot be read")
	}
	if len(r.Tasks) == 0 {
		return "none has run yet", nil
	}
	if !r.Healthy && r.Leader != nil {
		return "", errors.New(apispec.Deref(r.Unhealthy))
	}
	names := map[lifecycle.Phase][]string{}
	for _, t := range r.Tasks {
		phase := lifecycle.Phase(t.Phase)
		names[phase] = append(names[phase], t.Name)
	}
	return lifecycle.Summary(names)
}
