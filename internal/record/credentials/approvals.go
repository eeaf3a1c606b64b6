package credentials

import (
	"context"
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

// JudgeTask is Judge for what the record of a task has.
func JudgeTask(ctx context.Context, s state.Store, t state.Task) (state.Task, error) {
	judge := func(a state.Approval) (state.Approval, error) {
		all, err := Judge(ctx, s, a.All())
		if err != nil {
			return a, err
		}
		return state.ApprovalOf(a.Content, all), nil
	}
	if t.Run != nil && (len(t.Run.Approvals) > 0 || t.Run.Resume != nil && t.Run.Resume.Approval != nil) {
		live, err := *t.Run, error(nil)
		if live.Approvals, err = Judge(ctx, s, live.Approvals); err != nil {
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
