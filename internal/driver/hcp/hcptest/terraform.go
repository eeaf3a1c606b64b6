package hcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

const (
	stateFile = "terraform.tfstate"
	planFile  = "tfplan"

	// The files of variables that are read last override all others.
	platformVariables = "zz_platform.auto.tfvars"
	runVariables      = "zz_run.auto.tfvars"
)

// terraformPlan unpacks the upload and plans.
func (s *Server) terraformPlan(ctx context.Context, r *run) error {
	if s.terraform == "" {
		s.locked(func() { r.simulate() })
		return nil
	}
	if err := s.prepare(r); err != nil {
		return err
	}
	fmt.Fprintf(r.planLog, "Terraform v%s\nInitializing plugins and modules...\n", s.version)
	var said bytes.Buffer
	if err := s.execute(ctx, r, &said, "init", "-input=false", "-no-color"); err != nil {
		r.planLog.Write(said.Bytes())
		return err
	}
	args := []string{"plan", "-input=false", "-no-color", "-lock=false", "-detailed-exitcode", "-out=" + planFile}
	s.locked(func() {
		if r.workspace.flag("structured-run-output-enabled") {
			args = append(args, "-json")
		}
		for flag, on := range map[string]bool{"-destroy": r.destroy, "-refresh-only": r.refreshOnly, "-refresh=false": !r.refresh} {
			if on {
				args = append(args, flag)
			}
		}
		for _, address := range r.targets {
			args = append(args, fmt.Sprint("-target=", address))
		}
		for _, address := range r.replace {
			args = append(args, fmt.Sprint("-replace=", address))
		}
	})
	err := s.execute(ctx, r, r.planLog, args...)
	changes := false
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 2 {
		changes, err = true, nil
	}
	if err != nil {
		return err
	}
	var shown bytes.Buffer
	if err := s.execute(ctx, r, &shown, "show", "-json", planFile); err != nil {
		return err
	}
	p, err := summarize(shown.Bytes())
	p.changes = changes
	s.locked(func() { r.planned = p })
	return err
}

// terraformApply applies the plan and takes over the state, also after a failure.
func (s *Server) terraformApply(ctx context.Context, r *run) error {
	if s.terraform == "" {
		s.locked(func() { s.applySimulated(r) })
		return nil
	}
	fmt.Fprintf(r.applyLog, "Terraform v%s\nInitializing plugins and modules...\n", s.version)
	args := []string{"apply", "-input=false", "-no-color", "-lock=false"}
	s.locked(func() {
		if r.workspace.flag("structured-run-output-enabled") {
			args = append(args, "-json")
		}
	})
	err := s.execute(ctx, r, r.applyLog, append(args, planFile)...)
	content, readErr := os.ReadFile(filepath.Join(r.dir, stateFile))
	if errors.Is(readErr, os.ErrNotExist) {
		return err
	}
	s.locked(func() { s.addState(r.workspace, content, r) })
	return errors.Join(err, readErr)
}

// prepare writes the files of the run: the upload, the workspace's state and variables, and a
// backend that keeps the state beside them.
func (s *Server) prepare(r *run) (err error) {
	s.locked(func() {
		r.dir = filepath.Join(s.dir, r.id)
		if err = r.version.write(r.dir); err != nil {
			return
		}
		r.dir = filepath.Join(r.dir, filepath.FromSlash(r.workspace.text("working-directory")))
		files := map[string]string{"zz_platform_override.tf": "terraform {\n  backend \"local\" {}\n}\n", platformVariables: "", runVariables: ""}
		for _, v := range r.workspace.effective() {
			if v.category() == "terraform" {
				value := v.value()
				if !v.flag("hcl") {
					value = quote(value)
				}
				files[platformVariables] += v.key() + " = " + value + "\n"
			}
		}
		for _, v := range r.variables {
			v, _ := v.(object)
			files[runVariables] += fmt.Sprint(v["key"], " = ", v["value"], "\n")
		}
		if v := r.workspace.state(); v != nil {
			files[stateFile] = string(v.content)
		} else if e := os.Remove(filepath.Join(r.dir, stateFile)); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = e
		}
		for name, text := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644))
		}
	})
	return err
}

// quote writes a string of HCL.
func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(quoted))
}

// execute runs Terraform in the run's folder.
func (s *Server) execute(ctx context.Context, r *run, to io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, s.terraform, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, to, to
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": s.dir, "TF_CLI_CONFIG_FILE": s.rc, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1",
		"TFC_RUN_ID": r.id, "TFE_RUN_ID": r.id,
	}
	s.locked(func() {
		env["TFC_WORKSPACE_NAME"] = r.workspace.name()
		for _, v := range r.workspace.effective() {
			if v.category() == "env" {
				env[v.key()] = v.value()
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	if err := testtools.StartWithTest(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// summarize reads how many resources a plan adds, changes, destroys and imports.
func summarize(shown []byte) (plan, error) {
	p := plan{json: shown}
	var doc struct {
		Changes []struct {
			Change struct {
				Actions   []string
				Importing *struct{}
			}
		} `json:"resource_changes"`
	}
	if err := json.Unmarshal(shown, &doc); err != nil {
		return p, fmt.Errorf("read the plan: %w", err)
	}
	for _, c := range doc.Changes {
		for _, action := range c.Change.Actions {
			switch action {
			case "create":
				p.add++
			case "update":
				p.change++
			case "delete":
				p.destroy++
			}
		}
		if c.Change.Importing != nil {
			p.imports++
		}
	}
	return p, nil
}

// simulate plans without Terraform.
func (r *run) simulate() {
	w, p := r.workspace, plan{json: []byte(`{"format_version":"1.2","resource_changes":[]}`)}
	switch {
	case r.destroy:
		p.destroy = w.resources()
	case w.state() == nil || !bytes.Equal(w.state().upload, r.version.content):
		p.add, p.destroy = 1, w.resources()
	}
	p.changes = p.add+p.change+p.destroy > 0
	r.planned = p
	fmt.Fprintf(r.planLog, "Plan: %d to add, %d to change, %d to destroy.\n", p.add, p.change, p.destroy)
}

func (s *Server) applySimulated(r *run) {
	resources := `{"mode":"managed","type":"terraform_data","name":"simulated","instances":[{}]}`
	if r.destroy {
		resources = ""
	}
	fmt.Fprintln(r.applyLog, "Apply complete!")
	v := s.addState(r.workspace, []byte(`{"version":4,"serial":1,"resources":[`+resources+`]}`), r)
	v.upload = r.version.content
}

// redacted returns the plan with the schemas of its providers, as the command line needs it to show
// the plan.
func (s *Server) redacted(r *run) ([]byte, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(r.planned.json, &doc); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	var schemas struct {
		Version   json.RawMessage `json:"format_version"`
		Providers json.RawMessage `json:"provider_schemas"`
	}
	if s.terraform != "" {
		var shown bytes.Buffer
		var err error
		s.unlocked(func() { err = s.execute(s.ctx, r, &shown, "providers", "schema", "-json") })
		if err = errors.Join(err, json.Unmarshal(shown.Bytes(), &schemas)); err != nil {
			return nil, fmt.Errorf("read the schemas of the providers: %w", err)
		}
	}
	doc["plan_format_version"], doc["provider_format_version"], doc["provider_schemas"] = doc["format_version"], schemas.Version, schemas.Providers
	return json.Marshal(doc)
}
