package hcp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// madeBy is the description of the variables that the driver writes.
const madeBy = "Written by Terrapulse: changes made by hand are lost."

// awsAuth and awsRole make HCP Terraform assume an AWS role with its own identity.
const (
	awsAuth = "TFC_AWS_PROVIDER_AUTH"
	awsRole = "TFC_AWS_RUN_ROLE_ARN"
)

// maxVariable limits the value of a variable in HCP Terraform, in bytes.
const maxVariable = 256 << 10

// name identifies a variable of a workspace.
func (v Variable) name() string {
	if v.Env {
		return "env/" + v.Key
	}
	return v.Key
}

// secrets are the variables that the workspace needs: what must not be in the upload.
func (s *step) secrets() (map[string]Variable, error) {
	all := map[string]Variable{}
	add := func(v Variable) {
		v.Sensitive, v.Description = true, madeBy
		all[v.name()] = v
	}
	for name, text := range rootmodule.SecretLiterals(s.job.Task, s.values.Config, s.values.Variables) {
		add(Variable{Key: name, Value: text, HCL: true})
	}
	for name, text := range rootmodule.Env(s.job.Task, s.values.Config) {
		add(Variable{Key: name, Value: text, Env: true})
	}
	if role := s.job.Task.AWSRole; role != "" { // HCP Terraform assumes it itself
		add(Variable{Key: awsAuth, Value: "true", Env: true})
		add(Variable{Key: awsRole, Value: role, Env: true})
	}
	for name, v := range all {
		if len(v.Value) > maxVariable {
			return nil, fmt.Errorf("task %s: the value of %s has %d bytes, but a variable of HCP Terraform has at most %d", s.job.Task.Name, name, len(v.Value), maxVariable)
		}
	}
	return all, nil
}

// digestOf returns a digest of a secret, which shows nothing of it without the token.
func digestOf(token string, v Variable) string {
	key := sha256.Sum256([]byte("terrapulse variables " + token))
	sum := hmac.New(sha256.New, key[:])
	fmt.Fprintf(sum, "%q %v %v %q", v.Key, v.Env, v.HCL, v.Value)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// setVariables writes the secrets whose values have changed, and removes those that are
// not needed any more. Its record is written with the next step. A plan only writes those
// that the workspace does not have, because Terraform asks for a value otherwise, and none
// if workspaces stay untouched.
func (s *step) setVariables(ctx context.Context) error {
	wanted, err := s.secrets()
	if err != nil {
		return err
	}
	there, err := s.variables(ctx)
	if err != nil {
		return err
	}
	if !s.reads {
		if err := s.removeVariables(ctx, wanted, there); err != nil {
			return err
		}
	}
	if err := s.shadowed(ctx, wanted, there); err != nil {
		return err
	}
	if err := s.shadowedBySets(ctx, there); err != nil {
		return err
	}
	digests := map[string]string{}
	differ := map[string]Variable{}
	for name, v := range wanted {
		digests[name] = digestOf(s.token, v)
		is, exists := there[name]
		if !exists || !s.reads && !(is.Sensitive && s.rec.Variables[name] == digests[name]) {
			differ[name] = v
		}
	}
	if s.reads && s.untouched() && !s.created {
		s.lacks = slices.Sorted(maps.Keys(differ))
		s.saySecrets(wanted)
		return nil
	}
	if err := s.forgetVariables(ctx, differ); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(differ)) {
		v := differ[name]
		var err error
		if is, exists := there[name]; exists {
			err = s.changeVariable(ctx, is, v)
		} else {
			err = s.createVariable(ctx, v)
		}
		if err != nil {
			return s.failed("write the variable "+v.Key+" of the workspace "+s.ws.Name, err)
		}
	}
	if !s.reads {
		s.rec.Variables = digests
	}
	return nil
}

// variables returns the variables of the workspace by their names.
func (s *step) variables(ctx context.Context) (map[string]Variable, error) {
	found, err := s.api.Variables(ctx, s.ws.ID)
	if err != nil {
		return nil, s.failed("list the variables of the workspace "+s.ws.Name, err)
	}
	there := map[string]Variable{}
	for _, v := range found {
		there[v.name()] = v
	}
	return there, nil
}

// removeVariables removes the variables that the driver has written and that are not needed
// any more.
func (s *step) removeVariables(ctx context.Context, wanted, there map[string]Variable) error {
	for _, name := range slices.Sorted(maps.Keys(there)) {
		v := there[name]
		if _, needed := wanted[name]; needed || v.Description != madeBy {
			continue
		}
		if err := s.api.DeleteVariable(ctx, s.ws.ID, v.ID); err != nil {
			return s.failed("delete the variable "+v.Key+" of the workspace "+s.ws.Name, err)
		}
		delete(there, name)
	}
	return nil
}

// forgetVariables records that the values of these variables are not known: this step may
// write them, and die before it records that.
func (s *step) forgetVariables(ctx context.Context, differ map[string]Variable) error {
	known := maps.Clone(s.rec.Variables)
	maps.DeleteFunc(known, func(name, _ string) bool { _, ok := differ[name]; return ok })
	if s.reads || len(known) == len(s.rec.Variables) {
		return nil
	}
	s.rec.Variables = known
	s.rec.Run, s.rec.By, s.rec.Content, s.rec.Intent = state.RemoteRun{}, "", "", "" // it has ended
	return s.record(ctx)
}

// changeVariable gives a variable that exists another value. Of a sensitive variable, nothing else
// can be changed: one with other attributes, such as a plain one, is replaced.
func (s *step) changeVariable(ctx context.Context, is, v Variable) error {
	if is.Sensitive && v.Sensitive && is.Key == v.Key && is.Env == v.Env && is.HCL == v.HCL && is.Description == v.Description {
		return s.api.SetVariableValue(ctx, s.ws.ID, is.ID, v.Value)
	}
	if err := s.api.DeleteVariable(ctx, s.ws.ID, is.ID); err != nil {
		return err
	}
	return s.createVariable(ctx, v)
}

// createVariable creates a variable, also if an earlier request created it whose answer was
// lost.
func (s *step) createVariable(ctx context.Context, v Variable) error {
	err := s.api.CreateVariable(ctx, s.ws.ID, v)
	if err == nil {
		return nil
	}
	found, listed := s.api.Variables(ctx, s.ws.ID)
	if listed != nil {
		return err
	}
	for _, other := range found {
		if other.name() == v.name() && other.Sensitive {
			return s.changeVariable(ctx, other, v)
		}
	}
	return err
}

// replaces reports whether a variable in HCP Terraform replaces a value in the upload: data from
// Consul, or a value that the task gives. An environment variable TF_VAR_NAME does not: for
// Terraform, a file wins over its environment.
func (s *step) replaces(v Variable) (data, given bool) {
	if v.Env {
		return false, false
	}
	return slices.Contains(rootmodule.Inputs(s.job.Task), v.Key), slices.Contains(s.job.Task.VariableNames(), v.Key)
}

// sayReplaced says that a variable, of the workspace or of a variable set, replaces a value that the
// task file gives to it.
func (s *step) sayReplaced(v Variable, origin string) {
	s.say("The variable %s of %s replaces the value that task %s gives to it.", v.Key, origin, s.job.Task.Name)
	s.Log.Warn("a variable in HCP Terraform replaces the value that the task file gives to it: remove it there if that is not meant",
		"task", s.job.Task.Name, "workspace", s.ws.Name, "variable", v.Key, "origin", origin)
}

// shadowed finds variables of the workspace that replace values in the upload. It removes those
// that Consul-Terraform-Sync has written, also from there.
func (s *step) shadowed(ctx context.Context, wanted, there map[string]Variable) error {
	for _, name := range slices.Sorted(maps.Keys(there)) {
		v := there[name]
		data, given := s.replaces(v)
		_, ours := wanted[name]
		switch {
		case ours, !data && !given:
		case s.adopted && s.reads: // Consul-Terraform-Sync may still run
			s.replaced = append(s.replaced, name)
		case s.adopted:
			s.say("The variable %s of the workspace %s is removed: its value comes with each run now.", v.Key, s.ws.Name)
			if err := s.api.DeleteVariable(ctx, s.ws.ID, v.ID); err != nil {
				return s.failed("delete the variable "+v.Key+" of the workspace "+s.ws.Name, err)
			}
			delete(there, name)
		case data:
			return fmt.Errorf("the workspace %s has a variable %s, which replaces the data from Consul in each run: delete it there", s.ws.Name, v.Key)
		default:
			s.sayReplaced(v, "the workspace "+s.ws.Name)
		}
	}
	return nil
}

// shadowedBySets finds variables of variable sets that replace values in the upload: every set
// does, with or without priority. own are the variables of the workspace itself.
func (s *step) shadowedBySets(ctx context.Context, own map[string]Variable) error {
	all, err := s.api.AllVariables(ctx, s.ws.ID)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDenied) {
		return nil
	}
	if err != nil {
		return s.failed("list the variables that the workspace "+s.ws.Name+" inherits", err)
	}
	for _, v := range all {
		data, given := s.replaces(v)
		_, itself := own[v.name()]
		switch {
		case !data && !given, itself:
		case data:
			return fmt.Errorf("the workspace %s inherits a variable %s from a variable set, which replaces the data from Consul in each run: remove the variable from the set, or the workspace from the set",
				s.ws.Name, v.Key)
		default:
			s.sayReplaced(v, "a variable set")
		}
	}
	return nil
}

// notification makes HCP Terraform send notifications about runs of the workspace. Polls find
// the same, so a failure does not end the run.
func (s *step) notification(ctx context.Context) {
	if s.cloud.NotificationURL == "" {
		return
	}
	warn := func(err error) {
		s.say("There are no notifications of the workspace %s, so its runs are polled: %v.", s.ws.Name, err)
		s.Log.Warn("HCP Terraform sends no notifications of a workspace: its runs are polled", "task", s.job.Task.Name, "workspace", s.ws.Name, "error", err)
	}
	token, err := s.Token(ctx, s.job.Config, s.cloud.NotificationToken)
	if err != nil {
		warn(err)
		return
	}
	digest := digestOf(s.token, Variable{Key: s.cloud.NotificationURL, Value: token})
	if s.rec.Notification == digest {
		return
	}
	n := Notification{Name: sourceName, URL: s.cloud.NotificationURL, Token: token,
		Triggers: []string{"run:needs_attention", "run:completed", "run:errored"}}
	found, err := s.api.Notifications(ctx, s.ws.ID)
	if err != nil {
		warn(err)
		return
	}
	for _, other := range found {
		if other.Name == sourceName {
			n.ID = other.ID
		}
	}
	if err := s.api.SetNotification(ctx, s.ws.ID, n); err != nil {
		warn(err)
		return
	}
	s.rec.Notification = digest
}

// leave removes the secrets and the notification that the driver has written from a workspace that
// stays after a destroy.
func (s *step) leave(ctx context.Context) error {
	notified := s.rec.Notification != ""
	s.rec.Variables, s.rec.Notification = nil, ""
	if err := s.record(ctx); err != nil {
		return err
	}
	there, err := s.variables(ctx)
	if err != nil {
		return err
	}
	if err := s.removeVariables(ctx, nil, there); err != nil || !notified {
		return err
	}
	found, err := s.api.Notifications(ctx, s.ws.ID)
	if err != nil {
		return s.failed("list the notifications of the workspace "+s.ws.Name, err)
	}
	for _, n := range found {
		if n.Name == sourceName {
			if err := s.api.DeleteNotification(ctx, n.ID); err != nil {
				return s.failed("delete the notification of the workspace "+s.ws.Name, err)
			}
		}
	}
	return nil
}
