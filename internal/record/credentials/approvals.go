package credentials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Identity is who sends the token.
func (t Token) Identity() identity.Identity {
	who := identity.OfToken(t.Name)
	who.Account, who.Made = t.account(), t.Created
	return who
}

// account tells the token from others that had its name or will have it.
func (t Token) account() string { return t.Hash[:min(len(t.Hash), 16)] }

// Judge returns approvals as they are now: those of a named token that was revoked since are revoked, even if
// another token has its name.
func Judge(ctx context.Context, s state.Store, given []state.Given) ([]state.Given, error) {
	judged := given
	for i, g := range given {
		if g.Proof != identity.Token || g.Account == "" { // else it is a token of the configuration
			continue
		}
		name := strings.TrimPrefix(g.By, identity.TokenKind)
		t, err := state.Read[Token](ctx, s, tokenKey(name))
		if err != nil {
			return nil, fmt.Errorf("read the token %s, with which a plan was approved: %w", name, err)
		}
		if g.Account != t.Data.account() {
			judged = slices.Clone(judged)
			judged[i].Revoked = true
		}
	}
	return judged, nil
}

// Prove is Judge for approvals of a content that the record of a task or a run repeats. Those without a record of
// their own are revoked, too.
func Prove(ctx context.Context, s state.Store, task string, content state.Content, given []state.Given) ([]state.Given, error) {
	given, err := Judge(ctx, s, given)
	if err != nil {
		return nil, err
	}
	proved := slices.Clone(given)
	for i, g := range given {
		if g.ID == "" {
			proved[i].Revoked = true
			continue
		}
		rec, err := state.Read[state.GivenRecord](ctx, s, state.ApprovalKey(task, g.ID))
		if err != nil && !errors.As(err, new(*state.CorruptError)) {
			return nil, fmt.Errorf("read the approval of task %s by %s: %w", task, g.By, err)
		}
		proved[i].Revoked = g.Revoked || !rec.Data.Proves(g, content)
	}
	return proved, nil
}

// ProveApproval is Prove for an approval that people have given together.
func ProveApproval(ctx context.Context, s state.Store, task string, a state.Approval) (state.Approval, error) {
	all, err := Prove(ctx, s, task, a.Content, a.All())
	if err != nil {
		return a, err
	}
	return state.ApprovalOf(a.Content, all), nil
}

// ProveTask is Prove for what the record of a task has. Approvals of a run that waits with no content are revoked:
// nothing proves them.
func ProveTask(ctx context.Context, s state.Store, task string, t state.Task) (state.Task, error) {
	judge := func(a state.Approval) (state.Approval, error) { return ProveApproval(ctx, s, task, a) }
	if t.Run != nil {
		live, content, err := *t.Run, state.Content{}, error(nil)
		if live.Wait != nil && live.Wait.Content != nil {
			content = *live.Wait.Content
		}
		if live.Approvals, err = Prove(ctx, s, task, content, live.Approvals); err != nil {
			return t, err
		}
		if live.Resume != nil && live.Resume.Approval != nil {
			resume := *live.Resume
			a, err := judge(*resume.Approval)
			if err != nil {
				return t, err
			}
			resume.Approval, live.Resume = &a, &resume
		}
		t.Run = &live
	}
	if t.Accepted != nil {
		a, err := judge(t.Accepted.Approval)
		if err != nil {
			return t, err
		}
		accepted := *t.Accepted
		accepted.Approval, t.Accepted = a, &accepted
	}
	return t, nil
}
