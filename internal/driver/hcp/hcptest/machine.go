package hcptest

import (
	"context"
	"slices"
	"time"
)

// Checks are what HCP Terraform does in a run beside Terraform.
type Checks struct {
	Cost   bool   // estimate costs
	Policy string // "passed", "soft_failed" (waits for an override) or "hard_failed" (the run fails); "" for no policy

	// Run tasks: "passed", "failed" or "awaiting_decision" (waits for an override); "" for none.
	PrePlan, PostPlan, PreApply, PostApply string
}

type stage struct{ name, result string }

// stages are the stages that have run tasks.
func (c Checks) stages() []stage {
	all := []stage{{"pre_plan", c.PrePlan}, {"post_plan", c.PostPlan}, {"pre_apply", c.PreApply}, {"post_apply", c.PostApply}}
	return slices.DeleteFunc(all, func(s stage) bool { return s.result == "" })
}

// Check sets the checks of the runs that are created from now on.
func (s *Server) Check(c Checks) { s.locked(func() { s.checks = c }) }

// queue adds a run to its workspace and lets it go on by itself.
func (s *Server) queue(r *run) {
	r.id = s.newID("run")
	r.status, r.created, r.timestamps = "pending", time.Now(), map[string]string{stampName("plan_queueable"): time.Now().UTC().Format(time.RFC3339)}
	r.planState, r.applyState = "pending", "pending"
	r.planLog, r.applyLog = s.newLog(), s.newLog()
	r.checks = s.checks
	if cost, _ := s.organizations[r.workspace.organization].attributes["cost-estimation-enabled"].(bool); cost {
		r.checks.Cost = true
	}
	if r.terraformVersion == "" {
		r.terraformVersion = r.workspace.text("terraform-version")
	}
	s.runs[r.id] = r
	r.workspace.runs = append(r.workspace.runs, r)
	s.notify(r, "run:created")
	s.workers.Go(func() { s.locked(func() { s.live(r) }) })
}

// live is a run's life. It waits for its turn, for Terraform and for people.
func (s *Server) live(r *run) {
	w := r.workspace
	goesOn := s.turn(r) &&
		s.tasks(r, "pre_plan", r.checks.PrePlan) &&
		s.reach(r, "plan_queued") &&
		s.plan(r) &&
		s.estimate(r) &&
		s.policy(r) &&
		s.tasks(r, "post_plan", r.checks.PostPlan) &&
		s.decide(r) &&
		s.tasks(r, "pre_apply", r.checks.PreApply) &&
		s.reach(r, "apply_queued") &&
		s.apply(r) &&
		s.tasks(r, "post_apply", r.checks.PostApply)
	if goesOn {
		s.finish(r, "applied")
	}
	if w.current == r {
		w.current = nil
	}
	s.changed.Broadcast()
}

// alive reports whether the run goes on.
func (s *Server) alive(r *run) bool { return !r.ended() && !s.closed }

// reach gives the run a status, in which it stays as long as a test holds it.
func (s *Server) reach(r *run, status string) bool {
	if !s.alive(r) {
		return false
	}
	r.enter(status)
	switch status {
	case "planning", "applying":
		s.notify(r, "run:"+status)
	}
	s.changed.Broadcast()
	for s.alive(r) && s.held(r) {
		s.changed.Wait()
	}
	return s.alive(r)
}

// enter notes a status and its time.
func (r *run) enter(status string) {
	r.status = status
	r.timestamps[stampName(status)] = time.Now().UTC().Format(time.RFC3339)
}

// end gives the run its final status. Terraform is stopped.
func (r *run) end(status string) {
	r.enter(status)
	r.resting = false
	if r.process != nil {
		r.process()
	}
	if r.planState == "pending" || r.planState == "queued" {
		r.planState = "unreachable"
	}
	if r.applyState == "pending" || r.applyState == "queued" {
		r.applyState = "unreachable"
	}
	if r.workspace.current == r && r.process == nil {
		r.workspace.current = nil
	}
}

// finish ends the run and says so.
func (s *Server) finish(r *run, status string) bool {
	if s.alive(r) {
		r.end(status)
		s.notifyEnd(r)
		s.changed.Broadcast()
	}
	return false
}

// turn waits until the run is the first of its workspace, which nobody has locked.
func (s *Server) turn(r *run) bool {
	w := r.workspace
	for s.alive(r) {
		free := w.current == nil && w.locker == "" && w.first() == r
		switch {
		case s.held(r):
		case r.aside():
			return true
		case w.current == r:
			return true
		case free, r.forced && w.current == nil:
			w.current = r
			return true
		}
		s.changed.Wait()
	}
	return false
}

// first is the oldest run that waits for its turn.
func (w *workspace) first() *run {
	for _, r := range w.runs {
		if !r.ended() && !r.aside() && !r.resting {
			return r
		}
	}
	return nil
}

// tasks does the run tasks of a stage.
func (s *Server) tasks(r *run, stage, result string) bool {
	if result == "" {
		return true
	}
	if !s.reach(r, stage+"_running") {
		return false
	}
	switch result {
	case "failed":
		return s.finish(r, "errored")
	case "awaiting_decision":
		if !s.rest(r, stage+"_awaiting_decision") {
			return false
		}
	}
	return s.reach(r, stage+"_completed")
}

// rest gives the run a status in which a person must decide, and waits for that.
func (s *Server) rest(r *run, status string) bool {
	r.decision = ""
	if r.status != status && !s.reach(r, status) {
		return false
	}
	r.resting = true
	s.notify(r, "run:needs_attention")
	s.changed.Broadcast()
	for s.alive(r) && r.decision == "" {
		s.changed.Wait()
	}
	r.resting = false
	return s.alive(r)
}

// plan runs Terraform's plan.
func (s *Server) plan(r *run) bool {
	r.planState = "queued"
	if !s.reach(r, "planning") {
		return false
	}
	r.planState = "running"
	err := s.process(r, func(ctx context.Context) error { return s.terraformPlan(ctx, r) })
	r.planLog.close()
	if !s.settle(r, &r.planState, err) {
		return false
	}
	switch {
	case r.savePlan:
		return true
	case r.planOnly && r.checks == (Checks{}), !r.planned.changes && !r.allowEmpty:
		return s.finish(r, "planned_and_finished")
	}
	return s.reach(r, "planned")
}

// process runs something that can be cancelled.
func (s *Server) process(r *run, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	r.process = cancel
	s.unlocked(func() { err = do(ctx) })
	r.process = nil
	return err
}

// settle notes how Terraform ended.
func (s *Server) settle(r *run, state *string, err error) bool {
	switch {
	case r.ended(): // by force, or with its workspace
		*state = "canceled"
		return false
	case !r.canceled.IsZero():
		*state = "canceled"
		return s.finish(r, "canceled")
	case err != nil:
		*state = "errored"
		return s.finish(r, "errored")
	}
	*state = "finished"
	return true
}

func (s *Server) estimate(r *run) bool {
	return !r.checks.Cost || r.savePlan || s.reach(r, "cost_estimating") && s.reach(r, "cost_estimated")
}

func (s *Server) policy(r *run) bool {
	if r.checks.Policy == "" {
		return true
	}
	if !s.reach(r, "policy_checking") {
		return false
	}
	switch r.checks.Policy {
	case "hard_failed":
		return s.finish(r, "errored")
	case "soft_failed":
		if r.planOnly {
			return s.finish(r, "policy_soft_failed")
		}
		if !s.rest(r, "policy_override") {
			return false
		}
	}
	return s.reach(r, "policy_checked")
}

// decide waits for the confirmation of the plan.
func (s *Server) decide(r *run) bool {
	switch {
	case r.planOnly:
		return s.finish(r, "planned_and_finished")
	case r.savePlan:
		return s.rest(r, "planned_and_saved") && s.turn(r) && s.reach(r, "confirmed")
	case !r.autoApply && !s.rest(r, r.status):
		return false
	}
	return s.reach(r, "confirmed")
}

// apply runs Terraform's apply of the plan.
func (s *Server) apply(r *run) bool {
	r.applyState = "queued"
	if !s.reach(r, "applying") {
		return false
	}
	r.applyState = "running"
	err := s.process(r, func(ctx context.Context) error { return s.terraformApply(ctx, r) })
	r.applyLog.close()
	if !s.settle(r, &r.applyState, err) {
		return false
	}
	if !r.version.speculative {
		r.workspace.configuration = r.version
	}
	return true
}
