package simulate

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// mutant is a rule of the engine, with an edit of the engine's source that breaks it,
// and what the judge must say then.
type mutant struct {
	rule     string
	file     string // below internal
	old, new string
	says     string
	seed     uint64 // near one that shows it soon, where it is rare; 1 if 0
	stride   uint64 // of the seeds; 1 if 0
	forgets  bool   // needs a launch with several containers
	test     string // package and name of the test that catches it, if no seed shows it soon
}

var mutants = slices.Concat(engineMutants, eventMutants, ruleMutants, removalMutants, pauseMutants, lingerMutants, sharedMutants, remoteMutants, documentMutants, crossingMutants, summaryMutants, orderMutants, verifiedMutants)

// engineMutants break what holds for every task.
var engineMutants = []mutant{
	{
		rule: "the lease: what a leader writes is written with the check of its token",
		file: "record/lease/lease.go",
		old:  "all := append([]state.Change{state.Check(held.Record)}, changes...)",
		new:  "all := append([]state.Change{}, changes...); if len(all) == 0 || held.Key != \"\" { w, e := l.store.Apply(ctx, all...); records = w; return e }",
		says: "one leader acts",
	}, {
		rule: "the lease: who takes it reads the reconcile record again if somebody else has led meanwhile",
		file: "engine/reconcile/tick.go",
		old:  "if !taken.Again() {",
		new:  "if false {",
		says: "a transition is written with its event",
		seed: documentSeeds + 1100,
	}, {
		rule:    "the claim: only a run that nobody has is claimed",
		file:    "engine/runner/claim.go",
		old:     "if run.Data.State != state.RunIntended {",
		new:     "if run.Data.State.Ended() {",
		says:    "a run is claimed once",
		forgets: true,
	}, {
		rule: "the claim: a runner whose claim was replaced leaves the run",
		file: "engine/runner/claim.go",
		old:  "if there.Version == c.run.Version || !c.holds(there.Data, c.run.Data.Claim) {",
		new:  "if there.Version == c.run.Version {",
		says: "",
	}, {
		rule: "the intent is written before its launch is started",
		file: "engine/reconcile/batch.go",
		old:  "_, err := b.tick.opts.Lease.Apply(ctx, append(changes, b.checks(b.items...)...)...)",
		new:  "if b.launches != \"\" { b.tick.start(ctx, launches...) }; _, err := b.tick.opts.Lease.Apply(ctx, append(changes, b.checks(b.items...)...)...)",
		says: "the intent comes first",
	}, {
		rule: "the record of a task says that its run waits",
		file: "record/state/wait.go",
		old:  "live.Wait, live.Input, live.Resume, live.Approvals = run.Wait, run.Digest, nil, nil",
		new:  "live.Input = run.Digest",
		says: "",
	}, {
		rule: "a request that comes late does not resume a run that waits for something else by now",
		seed: 954,
		file: "engine/control/run.go",
		old:  "|| w.ID != wait ||",
		new:  "||",
		says: "a request concerns the wait",
	}, {
		rule: "the digest: applied is what a successful apply rendered",
		file: "record/state/outcome.go",
		old:  "next.Applied.Digest, next.Applied.At = definition, run.Digest, run.Ended",
		new:  "next.Applied.Digest, next.Applied.At = definition, next.Observed.Digest, run.Ended",
		says: "applied is what was rendered",
	}, {
		rule: "a run whose container runs is not lost, however old its claim",
		seed: 21250,
		file: "engine/reconcile/live.go",
		old:  "if live == nil || live.Wait != nil || statuses[live.Launch].alive() {",
		new:  "if live == nil || live.Wait != nil {",
		says: "one process applies a task",
	}, {
		rule: "a task that has a live run is not run",
		file: "engine/decide/admit.go",
		old:  "if d.state.Run == nil || d.state.Waits() != nil {",
		new:  "if d.state.Run == nil || d.state.Waits() != nil || d.Force != \"\" {",
		says: "", // two live runs, or one that ended without its event
	}, {
		rule:    "what is settled is what the container that stopped has left",
		seed:    1060,
		file:    "record/orphan/orphan.go",
		old:     "return run.State == state.RunIntended || runner == \"\" || run.Runner == runner",
		new:     "return run.State == state.RunIntended || true",
		says:    "dead",
		forgets: true,
	}, {
		rule: "nothing is run on a partial read",
		file: "engine/reconcile/observe.go",
		old:  "in.Unreadable = answer.Err\n",
		new:  "in.Observed = &decide.Observed{Digest: \"what could be read\"}\n",
		says: "nothing is applied on a partial read",
	}, {
		rule: "failure is not the end",
		seed: 494,
		file: "engine/decide/admit.go",
		old:  "return d.ahead(d.state.Failing.RetryAt, ",
		new:  "return d.state.Failing.Count > 2 || d.ahead(d.state.Failing.RetryAt, ",
		says: "no change is lost",
	}, {
		rule: "gates are a hint: every view is read now and then",
		seed: 13300,
		file: "engine/reconcile/idle.go",
		old:  "|| clock.Passed(rec.Refreshed, refreshEvery, now, t.Skew) {\n\t\treturn false",
		new:  "{\n\t\treturn false",
		says: "no change is lost",
	}, {
		rule:   "an outage of Consul is said, in whatever order its gates fail",
		file:   "record/state/reconcile.go",
		old:    "return s.ConsulUnreachable == as.ConsulUnreachable && sameWords",
		new:    "if true { return sameWords(s.ConsulError, as.ConsulError) }; return sameWords",
		says:   "an outage of Consul is unhealthy",
		seed:   5,
		stride: 8,
	}, {
		rule: "a selection of a peer belongs to that peer",
		file: "consul/identity.go",
		old:  "return p.Scope().Place() })",
		new:  "return p.Views()[0].Request().Scope.Place() })",
		seed: partlyEvery, stride: partlyEvery,
		says: "is gone with a Consul that was replaced",
	}, {
		rule: "a lost instance of a peer counts once its loss lasts",
		file: "taskfile/condition/services.go",
		old:  "			source.ID = s.ID\n",
		new:  "",
		test: "consul TestPeer_LossOfInstancesCountsOnceItLasts",
	}, {
		rule: "a claim that nobody renews ends",
		file: "engine/reconcile/live.go",
		old:  "case run.State == state.RunRunning && !now.Before(run.Expires.Add(grace)):",
		new:  "case false:",
		says: "nobody spins",
	}, {
		rule: "the record that a tick writes keeps changes that people made meanwhile",
		seed: 470,
		file: "engine/reconcile/finish.go",
		old:  "next.Overrides, next.Due, t.report.Due = rec.Data.Overrides, now, now",
		new:  "next.Due, t.report.Due = now, now",
		says: "everybody hears of a change",
	}, {
		rule: "the tasks that a tick has read match the overrides",
		seed: 2670,
		file: "engine/reconcile/order.go",
		old:  "if overrides == t.overrides {",
		new:  "if overrides != \"\" || t.overrides == \"\" {",
		says: "",
	}, {
		rule: "a decision of before a task was disabled does not run it",
		file: "engine/control/change.go",
		old:  "if !enabled {\n\t\t\te.Next.DropRequests()",
		new:  "if !enabled {\n\t\t\te.Record = state.Stored[state.Task]{Record: state.Record{Key: fmt.Sprintf(\"log/x/%d\", e.Now.UnixNano())}}",
		test: "engine/reconcile TestTick_TaskDisabledOrDeletedMeanwhileIsNotRun",
	}, {
		rule: "a decision of before a task was deleted does not run it",
		seed: 480,
		file: "engine/control/change.go",
		old:  "e.Next.Delete(next.By, accountOf(ctx, by), leaving)",
		new:  "_ = leaving\n\t\te.Record = state.Stored[state.Task]{Record: state.Record{Key: fmt.Sprintf(\"log/x/%d\", e.Now.UnixNano())}}",
		says: "", // what was deleted is run, or its events are out of order: their numbers are in that record
	}, {
		rule: "a task that was disabled rests when that of its file comes back",
		file: "taskfile/config/overlay.go",
		old:  "case ch.Enabled != nil:",
		new:  "case ch.Deleted == \"\" && ch.Enabled != nil:",
		test: "taskfile/config TestWith_AppliesChangesToTheFiles",
	}, {
		rule: "a provisional change whose run failed is undone",
		seed: 690,
		file: "engine/reconcile/provisional.go",
		old:  "case result.State == state.RunSucceeded:",
		new:  "case result.State != \"\":",
		says: "a trial is kept if its run succeeds",
	}, {
		rule: "a provisional change waits for its run",
		seed: 1740,
		file: "engine/reconcile/provisional.go",
		old:  "s.Ended.Last != nil && s.Ended.Last.Run != o.Provisional.Since",
		new:  "s.Ended.Last != nil",
		says: "a trial has its run",
	}, {
		rule: "a held task is not run for what its condition showed at first",
		file: "engine/decide/why.go",
		old:  "return untriggered(state.ReasonHeld, \"created",
		new:  "if d.state.Failing.Count == 0 { return d.changed() }; return untriggered(state.ReasonHeld, \"created",
		says: "a held task runs when its condition changes",
	}, {
		rule: "a change of its condition releases a held task",
		file: "engine/decide/decide.go",
		old:  "case s.Stop.TakesNext():",
		new:  "case s.Stop != nil:",
		says: "a held task runs when its condition changes",
	}, {
		rule: "a process that cannot read the pointer works with the bundle in force",
		seed: 1940,
		file: "engine/inforce/inforce.go",
		old:  "return f.keep(ctx, log, fmt.Errorf(\"read the latest bundle: %w\", err))",
		new:  "if f.Loaded == nil { return err }; f.Replaces = f.another",
		says: "a bundle never goes back",
	}, {
		rule: "a bundle replaces the one that was in force when the pointer was read",
		file: "engine/reconcile/tick.go",
		old:  "&& inForce != t.Bundle && rec.Version != t.opts.Replaces {",
		new:  "&& inForce != t.Bundle && t.opts.Replaces == \"\" {",
		says: "a bundle never goes back",
	}, {
		rule: "a run whose launcher does not answer is not lost before its runner has yielded",
		seed: 41290,
		file: "engine/reconcile/live.go",
		old:  "grace += yieldPatience",
		new:  "grace += 0",
		says: "one process applies a task",
	}, {
		rule: "a runner whose claim has expired interrupts Terraform",
		seed: 800,
		file: "engine/runner/claim.go",
		old:  "if expired && c.Yields {",
		new:  "if expired && !c.Yields {",
		says: "one process applies a task",
	}, {
		rule: "a run that was overtaken and has applied something has its task run again",
		seed: 72118,
		file: "engine/runner/outcome.go",
		old:  "if !done.applied {\n\t\treturn taken",
		new:  "if true {\n\t\treturn taken",
		says: "no change is lost",
	}, {
		rule: "a runner that was frozen since its claim renews it before it applies",
		file: "engine/runner/runner.go",
		old:  "if err := c.confirm(ctx); err != nil {",
		new:  "if err := error(nil); err != nil {",
		test: "engine/runner TestRun_GivenUpBeforeTheApplyAppliesNothing",
	}, {
		rule: "an unsaved state is saved only if no other was saved since",
		file: "driver/terraformcli/mark.go",
		old:  "if now.Lineage != left.Lineage ||",
		new:  "if now.Lineage == left.Lineage { return now.Serial < left.Serial }; if",
		test: "driver/terraformcli TestMark_Replaceable",
	}, {
		rule: "the lock of a run that is not known to be dead is not released",
		seed: 2143,
		file: "driver/terraform/locks.go",
		old:  " || run.State == state.RunLost && !run.Dead",
		new:  "",
		says: "the lock of a run that lives is not released",
	}, {
		rule: "a lease of a clock that was ahead does not block",
		file: "record/lease/lease.go",
		old:  "case o.Witness == nil && wrong:",
		new:  "case false && wrong:",
		says: "no change is lost",
	}, {
		rule: "a witness whose clock was set back begins anew",
		seed: 1660,
		file: "record/lease/lease.go",
		old:  "w.version != record.Version || now.Before(w.since) {",
		new:  "w.version != record.Version {",
		says: "no change is lost",
	}, {
		rule: "the pointer is read again by a process whose clock was ahead",
		seed: 1735,
		file: "engine/inforce/inforce.go",
		old:  "since >= 0 && since < pointerEvery",
		new:  "since < pointerEvery",
		says: "no change is lost",
	}, {
		rule: "a claim of a clock that was ahead ends",
		file: "engine/reconcile/live.go",
		old:  "if next.State != state.RunRunning || next.ClaimFor == 0",
		new:  "if true || next.ClaimFor == 0",
		says: "no change is lost",
	}, {
		rule: "a retry of a clock that was ahead is not late",
		seed: 75,
		file: "engine/decide/admit.go",
		old:  "return left > 0 && left <= interval+d.Skew",
		new:  "return left > 0",
		says: "no change is lost",
	}, {
		rule: "a request for a run while one is under way returns the next",
		file: "engine/control/run.go",
		old:  "if t.Run != nil {\n\t\te.Live",
		new:  "if t.Run != nil && false {\n\t\te.Live",
		test: "engine/control TestControl_ForceDuringARunAwaitsTheNext",
	},
}

// Each edit must apply to the engine's source as it is now, and compile.
func TestMutants_EditTheSourceOnce(t *testing.T) {
	packages := compiled(t)
	for _, m := range mutants {
		file, source, err := edited(m.file, m.old, m.new)
		if err != nil {
			t.Errorf("%s: %v", m.rule, err)
			continue
		}
		if err := packages.check(file, source); err != nil {
			t.Errorf("%s does not compile: %v", m.rule, err)
		}
		if m.test != "" && !isTest(t, m.test) {
			t.Errorf("%s: there is no test %s", m.rule, m.test)
		}
	}
}

// compiledPackages are the files and the compiled imports of the packages that mutants edit.
type compiledPackages struct {
	files   map[string][]string // by folder
	parsed  map[string]*ast.File
	fset    *token.FileSet
	imports types.Importer
}

func compiled(t *testing.T) *compiledPackages {
	t.Helper()
	dirs := map[string]bool{}
	for _, m := range mutants {
		dirs["../../"+path.Dir(m.file)] = true
	}
	args := []string{"list", "-export", "-deps", "-trimpath", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}"}
	list := exec.Command("go", append(args, slices.Sorted(maps.Keys(dirs))...)...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list what is compiled: %v", err)
	}
	c, exports := &compiledPackages{files: map[string][]string{}, parsed: map[string]*ast.File{}, fset: token.NewFileSet()}, map[string]string{}
	for line := range strings.Lines(string(out)) {
		of := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[of[0]], c.files[of[2]] = of[1], strings.Fields(of[3])
	}
	c.imports = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c
}

// check reports why a package does not compile if one of its files has another content.
func (c *compiledPackages) check(file string, source []byte) error {
	edited, err := parser.ParseFile(c.fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	files, dir := []*ast.File{edited}, filepath.Dir(file)
	for _, name := range c.files[dir] {
		name = filepath.Join(dir, name)
		if name == file {
			continue
		}
		if c.parsed[name] == nil {
			if c.parsed[name], err = parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		files = append(files, c.parsed[name])
	}
	_, err = (&types.Config{Importer: c.imports}).Check(dir, c.fset, files, nil)
	return err
}

// isTest reports whether a package below internal has a test: its name follows that of the package.
func isTest(t *testing.T, name string) bool {
	t.Helper()
	pkg, name, _ := strings.Cut(name, " ")
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(path string) bool {
		source, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(source), "func "+name+"(")
	})
}

// mutantsOfARun is how many mutants a run tries without TERRAPULSE_TEST_ALL: one takes about 10
// seconds of a processor.
const mutantsOfARun = 16

// chosen returns the mutants that this run tries: those whose files the latest commits have changed
// come first, and each commit takes others.
func chosen(t *testing.T) []mutant {
	if testtools.All() {
		return mutants
	}
	ask := func(args ...string) string { // "" without git, or with too short a history
		out, _ := exec.Command("git", args...).Output()
		return string(out)
	}
	changed, commit := strings.Fields(ask("diff", "--name-only", "HEAD~20")), ask("rev-parse", "HEAD")
	order := func(m mutant) string {
		turn := fmt.Sprintf("%x", sha256.Sum256([]byte(commit+m.rule)))
		if slices.Contains(changed, "internal/"+m.file) {
			return "0" + turn
		}
		return "1" + turn
	}
	some := slices.SortedFunc(slices.Values(mutants), func(a, b mutant) int { return strings.Compare(order(a), order(b)) })
	t.Logf("%d of %d rules; TERRAPULSE_TEST_ALL=1 tries all", mutantsOfARun, len(some))
	return some[:mutantsOfARun]
}

// A simulation that no fault of the engine can break proves nothing.
func TestABrokenRuleIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the engine once for each rule")
	}
	for _, m := range chosen(t) {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			if m.test != "" {
				pkg, name, _ := strings.Cut(m.test, " ")
				out, err := exec.Command("go", "test", "-vet=off", "-overlay", overlaid(t, m.file, m.old, m.new), "-run", "^"+name+"$", "../../"+pkg).CombinedOutput()
				if err == nil || !strings.Contains(string(out), "--- FAIL: "+name+" ") {
					t.Errorf("%s does not fail: %v\n%s", m.test, err, out)
				}
				return
			}
			all, err := run(broken(t, m.file, m.old, m.new), "-histories", "100000", "-seed", fmt.Sprint(max(m.seed, 1)), "-stride", fmt.Sprint(max(m.stride, 1)),
				fmt.Sprintf("-forgetful=%v", m.forgets))
			switch {
			case err != nil:
				t.Fatal(err)
			case all.Broken == "":
				t.Fatalf("not caught in %d histories", all.Histories)
			case !strings.Contains(all.Broken, m.says):
				t.Errorf("after %d histories something else was caught: %s", all.Histories, all.Broken)
			}
			t.Logf("caught after %d histories: %.160s", all.Histories, all.Broken)
		})
	}
}

// edited returns the path of a file of the engine, and its source after an edit.
func edited(file, from, to string) (path string, source []byte, err error) {
	if path, err = filepath.Abs(filepath.Join("..", "..", filepath.FromSlash(file))); err != nil {
		return "", nil, err
	}
	if source, err = os.ReadFile(path); err != nil {
		return "", nil, err
	}
	if n := strings.Count(string(source), from); n != 1 {
		return "", nil, fmt.Errorf("%s has %q %d times, not once: update the edit to the code that keeps the rule now", path, from, n)
	}
	return path, []byte(strings.Replace(string(source), from, to, 1)), nil
}

// broken builds this package's tests with an edit of the engine's source.
func broken(t *testing.T, file, from, to string) (binary string) {
	t.Helper()
	overlay, binary := overlaid(t, file, from, to), filepath.Join(t.TempDir(), "simulate.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// overlaid returns a file for go's flag -overlay, with an edit of the engine's source.
func overlaid(t *testing.T, file, from, to string) (overlay string) {
	t.Helper()
	path, source, err := edited(file, from, to)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied, overlay := filepath.Join(dir, "edited.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: copied}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, source, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
