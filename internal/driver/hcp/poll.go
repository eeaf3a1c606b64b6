package hcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// maxNames limits the length of the names of workspaces in one request.
	maxNames = 6000

	// unlistedFor is how long runs are polled one by one after a server has shown that it
	// has no list of all runs: it may be updated.
	unlistedFor = 10 * time.Minute

	// maxHolders limits how many workspaces a poll reads to find out who has locked them.
	maxHolders = 10
)

// polls is what a poll leaves for the next one.
type polls struct {
	mu       sync.Mutex
	next     string    // the workspace with which the next poll begins
	unlisted time.Time // until then, runs are polled one by one
	found    time.Time // when a poll last found anything
	failing  bool      // polls between ticks fail, and a tick was told
}

// fewFailures is how many polls between ticks may fail in a row before a tick follows.
const fewFailures = 3

// quietFor is how long polls that the rate limit refuses are no error: other programs with the
// same user may use it up for a moment.
const quietFor = time.Minute

func (p *polls) begin() (next string, unlisted time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next, p.unlisted
}

func (p *polls) stopAt(workspace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = workspace
}

func (p *polls) noList(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unlisted = until
}

// Poll implements reconcile.Remote. All runs of up to a hundred workspaces take one request.
// A run that is not in the answers has ended. If the rate limit ends a poll, the runs that
// it has not reached are left out, and the next poll begins with them.
func (d *Driver) Poll(ctx context.Context, cfg *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	api, err := d.api(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return d.poll(toPoll(ctx), api, cfg.Cloud().Organization, runs)
}

// Reach implements remotes.Driver.
func (d *Driver) Reach(ctx context.Context, cfg *config.Config) (string, error) {
	cloud := cfg.Cloud()
	api, err := d.api(ctx, cfg)
	if err != nil {
		return "", err
	}
	ctx = toPoll(ctx)
	_, err = api.ActiveRuns(ctx, cloud.Organization, []string{cloud.Workspace("none")})
	if errors.Is(err, ErrNotFound) { // this server has no such list, or there is no such organization
		err = api.Organization(ctx, cloud.Organization)
	}
	if err != nil {
		return "", fmt.Errorf("read the organization %s at %s: %w", cloud.Organization, cloud.Hostname, err)
	}
	return fmt.Sprintf("%s answers for the organization %s", cloud.Hostname, cloud.Organization), nil
}

func (d *Driver) poll(ctx context.Context, api API, organization string, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	next, unlisted := d.polls.begin()
	runs = inTurn(runs, next)
	if d.Now().Before(unlisted) {
		return d.pollEach(ctx, api, runs)
	}
	statuses := map[string]state.RemoteStatus{}
	var failed error
	holders, groups := maxHolders, grouped(runs)
	for i, group := range groups {
		active, err := api.ActiveRuns(ctx, organization, group.names)
		if errors.Is(err, ErrNotFound) { // an older Terraform Enterprise
			d.polls.noList(d.Now().Add(unlistedFor))
			return d.pollEach(ctx, api, runs)
		}
		if err != nil {
			if failed == nil {
				d.polls.stopAt(groups[after(i, len(groups))].names[0])
			}
			if stops(ctx, err) {
				return d.ended(statuses, failed, pollFailed(fmt.Sprintf("%d workspaces", len(group.names)), err))
			}
			failed = cmp.Or(failed, pollFailed(fmt.Sprintf("%d workspaces", len(group.names)), err))
			continue
		}
		for _, r := range group.runs {
			statuses[r.ID] = state.RemoteStatus{Phase: state.RemoteEnded, Text: "ended"}
		}
		for _, r := range active {
			if _, ours := statuses[r.ID]; ours {
				d.logUnknown(r)
				statuses[r.ID] = d.status(ctx, api, r, active, runs, &holders)
			}
		}
	}
	return d.ended(statuses, failed, nil)
}

// after returns with which of n the next poll begins if number i has failed: with the same, so that
// its turn comes, unless it was the first, so that it does not hide the others.
func after(i, n int) int {
	if i == 0 {
		return 1 % n
	}
	return i
}

// pollFailed returns the error of a poll, with what to do about it.
func pollFailed(what string, err error) error {
	advice := ""
	if errors.Is(err, ErrDenied) {
		advice = ": the token was revoked, has expired or lacks a right: give the driver another one (token, or TFC_TOKEN)"
	}
	return fmt.Errorf("poll the runs of %s: %w%s", what, err, advice)
}

// stops reports whether an error ends a poll: there is no time any more, or the rate limit is
// reached.
func stops(ctx context.Context, err error) bool { return ctx.Err() != nil || limited(err) }

// limited reports whether an error is that the rate limit is reached.
func limited(err error) bool {
	refused := (*Error)(nil)
	return errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests
}

// turned reports whether polls between ticks fail now and did not before, or the other way around. The
// first failures are no outage yet, and the rate limit is none.
func (p *polls) turned(failures int, err error) bool {
	if limited(err) || failures > 0 && failures < fewFailures {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.failing
	p.failing = failures > 0
	return was != p.failing
}

// ended returns what a poll has found. End is why it ended early; nil if it did not. That is no error
// if the poll has found anything, or if the rate limit ended it and one before it has found anything just
// now: the next one continues.
func (d *Driver) ended(statuses map[string]state.RemoteStatus, failed, end error) (map[string]state.RemoteStatus, error) {
	d.polls.mu.Lock()
	defer d.polls.mu.Unlock()
	if len(statuses) > 0 {
		d.polls.found = d.Now()
	} else if !limited(end) || d.Now().Sub(d.polls.found) > quietFor {
		failed = cmp.Or(failed, end)
	}
	return statuses, failed
}

// pollEach polls runs one by one. A run that cannot be read does not hide the others. That it is not
// found does not say that it has ended: perhaps the token has lost its rights.
func (d *Driver) pollEach(ctx context.Context, api API, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	statuses := map[string]state.RemoteStatus{}
	var failed error
	for i, r := range runs {
		run, err := api.Run(ctx, r.ID)
		var all []Run
		if err == nil && run.Status == statusPending { // another run may be first
			all, err = api.Runs(ctx, run.Workspace, false)
		}
		if err != nil {
			if failed == nil {
				d.polls.stopAt(runs[after(i, len(runs))].Workspace)
			}
			if stops(ctx, err) {
				return d.ended(statuses, failed, pollFailed(r.ID, err))
			}
			failed = cmp.Or(failed, pollFailed(r.ID, err))
			continue
		}
		d.logUnknown(run)
		active := slices.DeleteFunc(all, func(other Run) bool { return phaseOf(other) == state.RemoteEnded })
		statuses[r.ID] = d.status(ctx, api, run, active, runs, new(maxHolders))
	}
	return d.ended(statuses, failed, nil)
}

// status is how far a run has come. Active are the runs of its workspace, and perhaps of others,
// that have not ended.
func (d *Driver) status(ctx context.Context, api API, r Run, active []Run, known []state.RemoteRun, holders *int) state.RemoteStatus {
	if blocked(r, active, known) {
		return state.RemoteStatus{Phase: state.RemoteReady, Text: "a run of an earlier attempt is first"}
	}
	text, person := textAmong(r, active)
	if r.Status == statusPending && r.Locked && text == textOf(r) && *holders > 0 {
		*holders--
		if ws, err := api.WorkspaceByID(ctx, r.Workspace); err == nil {
			text = lockedText(r, ws)
		}
	}
	return state.RemoteStatus{Phase: phaseOf(r), Text: text, Person: person}
}

// inTurn sorts runs by their workspaces, and begins with this one.
func inTurn(runs []state.RemoteRun, first string) []state.RemoteRun {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b state.RemoteRun) int { return strings.Compare(a.Workspace, b.Workspace) })
	at := slices.IndexFunc(runs, func(r state.RemoteRun) bool { return r.Workspace >= first })
	return slices.Concat(runs[max(at, 0):], runs[:max(at, 0)])
}

// group is runs whose workspaces fit into a request.
type group struct {
	names []string
	runs  []state.RemoteRun
}

// grouped divides runs, which are sorted by their workspaces.
func grouped(runs []state.RemoteRun) []group {
	var groups []group
	size, last := 0, ""
	for _, r := range runs {
		isNew := len(groups) == 0 || r.Workspace != last
		if isNew {
			if size += len(r.Workspace) + 3; len(groups) == 0 || size > maxNames {
				groups, size = append(groups, group{}), len(r.Workspace)
			}
		}
		g := &groups[len(groups)-1]
		if g.runs = append(g.runs, r); isNew {
			g.names = append(g.names, r.Workspace)
		}
		last = r.Workspace
	}
	return groups
}

// textAmong says why a run does not go on, also if another run of its workspace is first. person reports
// whether that one waits for a person.
func textAmong(r Run, all []Run) (text string, person bool) {
	if r.Status == statusPending {
		for _, other := range all {
			if other.Workspace == r.Workspace && other.ID != r.ID && other.Status != statusPending && !other.PlanOnly {
				text := fmt.Sprintf("pending: the run %s of the same workspace is first: it is %s", other.ID, textOf(other))
				if person = phaseOf(other) == state.RemoteReady; person {
					text += ": confirm or discard it in HCP Terraform"
				}
				return text, person
			}
		}
	}
	return textOf(r), false
}

// blocked reports whether a run waits behind a stray run, which only ends by a decision. A step
// of the task's run, which has its claim, must stop the stray run.
func blocked(r Run, active []Run, known []state.RemoteRun) bool {
	return r.Status == statusPending && slices.ContainsFunc(active, func(other Run) bool {
		return other.Workspace == r.Workspace && other.Status != statusPending && other.Discardable && isStray(other, r.Version) && !slices.ContainsFunc(known, func(k state.RemoteRun) bool { return k.ID == other.ID })
	})
}
