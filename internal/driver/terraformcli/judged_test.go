package terraformcli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// judged is a Judge that keeps what it saw.
type judged struct {
	plans  []Plan
	states []StateMark
	err    error
	also   func()
}

func (j *judged) judge(_ context.Context, p Plan, s StateMark) error {
	j.plans, j.states = append(j.plans, p), append(j.states, s)
	if j.also != nil {
		j.also()
	}
	return j.err
}

func TestApplyJudged_AppliesThePlanThatWasJudged(t *testing.T) {
	f := newFixture(t, fileModule)
	d := f.open()
	f.init(d, true)
	names := filepath.Join(f.module, "names.txt")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)

	refused := &judged{err: errors.New("too much")}
	if _, err := d.ApplyJudged(t.Context(), refused.judge); !errors.Is(err, refused.err) {
		t.Fatalf("a refused plan: %v", err)
	}
	if p := refused.plans[0]; !p.Changes || !p.New || p.JSON != nil || p.Summary.Add != 1 {
		t.Errorf("the judge got %+v", p)
	}
	if _, err := os.Stat(names); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused plan was applied: %v", err)
	}

	good := &judged{}
	sum, err := d.ApplyJudged(t.Context(), good.judge)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Add != 1 || len(sum.Resources) != 1 || sum.Resources[0].Action != "create" || read(t, names) != "api" {
		t.Errorf("applied %+v: %s", sum, read(t, names))
	}
	sum, err = d.ApplyJudged(t.Context(), good.judge)
	if err != nil || sum.Add+sum.Change+sum.Destroy > 0 {
		t.Errorf("a plan without changes: %+v, %v", sum, err)
	}
	if p, s := good.plans[1], good.states[1]; p.Changes || p.New || s.Lineage == "" || len(s.Objects) != 1 {
		t.Errorf("the judge got %+v of the state %+v", p, s)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*", "plan")); len(left) > 0 {
		t.Errorf("plans are left: %v", left)
	}
}

func TestApplyJudged_StateThatChangedSinceThePlanIsNotOverwritten(t *testing.T) {
	f := newFixture(t, fileModule)
	d := f.open()
	f.init(d, true)
	f.apply(d)
	f.render("api", "db")
	d = f.open()
	f.init(d, false)
	meanwhile := &judged{also: func() { f.apply(f.open()) }}
	_, err := d.ApplyJudged(t.Context(), meanwhile.judge)
	if err == nil || !strings.Contains(err.Error(), "stale") {
		t.Errorf("a plan of an older state: %v", err)
	}
}

func TestDestroyJudged_DestroysWhatThePlanSays(t *testing.T) {
	f := newFixture(t, fileModule)
	d := f.open()
	f.init(d, true)
	f.apply(d)
	good := &judged{}
	sum, err := d.DestroyJudged(t.Context(), good.judge)
	if err != nil || sum.Destroy != 1 {
		t.Errorf("destroyed %+v: %v", sum, err)
	}
	if got := good.plans[0].Summary.Destroy; got != 1 {
		t.Errorf("the plan destroys %d", got)
	}
	if _, err := os.Stat(filepath.Join(f.module, "names.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}
