package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In some histories, an approval of everything that a replaced Consul has lost can be enough for some tasks
// only: others need those of two people, and may have lost nothing, or be approved already. The judge checks
// that no task is permitted to lose something without the approvals that its rule needs, and that a tick
// which uses approvals permits what they are enough for.

// withPartly is the bundle of such histories, the last one.
var withPartly = len(bundles) - 1

// partlyEvery is how far apart their seeds are.
const partlyEvery = 24

// What tasks of such histories select comes from the clusters of a peer, and it is these that are replaced.
const (
	peerOfPartly  = "east"
	placeOfPartly = "peer:" + peerOfPartly
)

// ofPeer returns definitions once more, whose services a peer exports. They select them by an expression, as the
// first request of that has no peer in it.
func ofPeer(definitions []json.RawMessage) []json.RawMessage {
	all := make([]json.RawMessage, len(definitions))
	for i, d := range definitions {
		for _, name := range []string{"extra", "db"} {
			d = bytes.ReplaceAll(d, fmt.Appendf(nil, `{"names":[%q]}`, name), fmt.Appendf(nil, `{"regexp":"^%s$","peer":%q}`, name, peerOfPartly))
		}
		all[i] = d
	}
	return all
}

// forPartly is the bundle of such histories: of three tasks, one needs the approvals of two people, and one
// those of two people within 10 minutes.
func forPartly(task func(string) config.Task) bundle {
	tasks := []config.Task{task("web"), task("api"), task("db")}
	for i := range tasks {
		expression := "^" + tasks[i].Name + "$"
		tasks[i].Condition.Spec = condition.Services{{Regexp: &expression, Peer: peerOfPartly}}
	}
	for i, rule := range []approval.Spec{{Expires: time.Hour}, {Expires: time.Hour, Require: 2, People: oneOfTwo}, {Expires: 10 * time.Minute, Require: 2, DistinctApprover: true}} {
		rule.Rule = approval.Never
		tasks[i].Rules = config.Rules{Guard: guard.Default, Approval: rule}
	}
	return bundle{digest: "partly", config: &config.Config{KeepRemoved: keptRemoved, Tasks: tasks}}
}

// drawPartly prepares such a history.
func (w *world) drawPartly(seed uint64) {
	if w.partly = w.ruled && !w.shrinks && !w.removes && seed%partlyEvery == 0 && seed < orderSeeds && !w.weather.storm && !w.weather.frost; !w.partly {
		return
	}
	w.pointer, w.judge.place = withPartly, placeOfPartly
	w.judge.pushes[0] = bundles[w.pointer].digest
	w.weather.replaces = []int{0, 2}[w.rng.IntN(2)] // what was approved is void if Consul is replaced again
}

// givenAt is when somebody has approved what all tasks lose.
type givenAt struct {
	by string // "" if nothing proves the name
	at time.Time
}

// enoughOf reports whether the approvals that have not expired at a time are those of as many people as the rule
// needs.
func enoughOf(rule approval.Spec, given []givenAt, now time.Time) bool {
	var all []granted
	for _, g := range given {
		one := granted{by: g.by}
		if rule.Expires > 0 {
			one.expires = g.at.Add(rule.Expires)
		}
		all = append(all, one)
	}
	return enough(all, rule, now)
}

// give notes that somebody has approved what a task loses with all others.
func (l *losses) give(task string, of state.Attempt, g givenAt) {
	if l.given[task] == nil {
		l.given[task] = map[state.Attempt][]givenAt{}
	}
	l.given[task][of] = append(l.given[task][of], g)
}

// givenOf is an approval of what all tasks lose.
func givenOf(a state.ReplacedApproval) givenAt {
	g := givenAt{at: a.At}
	if a.Who().Proven() {
		g.by = a.By
	}
	return g
}

// permits reports whether a person has approved what a task loses, or at some time as many people as its
// rule needs.
func (l *losses) permits(rule approval.Spec, task string, of state.Attempt) bool {
	if _, ok := l.granted[task][of]; ok {
		return true
	}
	given := l.given[task][of]
	for i, g := range given {
		if enoughOf(rule, given[:i+1], g.at) {
			return true
		}
	}
	return false
}

// permitsLoss reports whether people have approved what a task loses, by the rules that a process works with.
func (j *judge) permitsLoss(v view, task string, of state.Attempt) bool {
	var rule approval.Spec
	if t, ok := j.knownTo(v).Task(task); ok {
		rule = t.Approval
	}
	return j.rules.losses.permits(rule, task, of)
}

// partlyApproved checks a tick that has used an approval of what all tasks lose, and holds some tasks on:
// they need more approvals. Others were permitted.
func (j *judge) partlyApproved(v view, cfg *config.Config, next *state.Replaced) {
	was := j.last.Replaced
	if was == nil || was.Approved == nil || next == nil || next.Approved != nil || !slices.ContainsFunc(next.Earlier, func(a state.ReplacedApproval) bool { return a.By == was.Approved.By && a.At.Equal(was.Approved.At) }) {
		return
	}
	l := &j.rules.losses
	given := []givenAt{givenOf(*was.Approved)}
	for _, a := range was.Earlier {
		if a.Shown == was.Approved.Shown {
			given = append(given, givenOf(a))
		}
	}
	for _, name := range next.Names {
		of, held := l.shown[was.Approved.Shown][name], l.shown[next.Shown][name]
		if t, ok := cfg.Task(name); ok && of == held && j.overrides[name].By == "" && enoughOf(t.Approval, given, was.Approved.At) {
			v.violated("what enough people have approved is permitted: %s holds %s on, which %+v have approved", v.name, name, given)
		}
	}
}
