package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/stack"
	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/process/support"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// supportTasks is how many tasks an archive has runs of: first those that are not applied.
	supportTasks = 25
	// supportOutput is how many bytes of the end of an output are kept.
	supportOutput = 512 << 10
)

// supportReport is what support-bundle prints with -json.
type supportReport struct {
	File  string         `json:"file"`
	Files []support.File `json:"files"`
}

// supportBundleCommand collects what a report about a problem needs.
func (a *app) supportBundleCommand() command {
	var from doorFlags
	var file string
	f := a.flagSet("support-bundle")
	from.register(f)
	f.StringVar(&file, "o", "", "The `file` to write, which must not exist. Default: terrapulse-support-TIME.zip in this folder.")
	return command{flags: f, synopsis: "Collect what a report about a problem needs",
		examples: []string{"-stack=network", onFile, "-http-addr http://localhost:8558 -o report.zip"}, codes: codesOfStore,
		help: `Usage: terrapulse support-bundle [flags]

  Writes an archive with versions, the phase and the reason of every task, the
  latest events, and the latest runs and Terraform's output of tasks that need
  attention. With -stack it also has the stack's parameters and outputs, what
  doctor -quick finds, and the logs of functions and containers. Nothing is sent
  anywhere, and nothing changes.

  Secrets are removed: values of variables of tasks, of environment variables
  such as CONSUL_HTTP_TOKEN, and what looks like a secret. Names, addresses and
  resources stay: read CONTENTS.txt and the files before you send them.
`,
		run: func([]string) int {
			api, err := from.api.resolved()
			if err != nil {
				return a.fail(exitFlags, err)
			}
			parts, done, code := a.supportParts(&from)
			if code >= 0 {
				return code
			}
			defer done()
			now := time.Now()
			folder := "terrapulse-support-" + now.UTC().Format("20060102-150405")
			file = cmp.Or(file, folder+".zip")
			out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return a.fail(exitError, fileOf("-o", fmt.Errorf("create the archive: %w", err)))
			}
			files, err := support.Write(a.ctx, out, folder, now, parts, support.NewCleaner(os.Environ(), api.Token))
			if err = errors.Join(err, out.Close()); err != nil {
				_ = os.Remove(file) // it is incomplete
				return a.fail(exitError, err)
			}
			if a.json {
				return a.printJSON(supportReport{file, files})
			}
			var t table
			t.row(plain, "FILE", "BYTES", "CONTENTS")
			for _, f := range files {
				if f.Problem != "" {
					t.row(bad, f.Name, "-", "missing: "+f.Problem)
					continue
				}
				t.row(plain, f.Name, fmt.Sprint(f.Size), f.About)
			}
			t.print(a.stdout)
			fmt.Fprintf(a.stdout, "\n%s is written. Read it before you send it: it has names, addresses and resources.\n", file)
			return exitOK
		},
	}
}

// supportParts returns the parts of the archive; done releases what they read from. The
// exit code is -1 if all is well.
func (a *app) supportParts(from *doorFlags) (parts []support.Part, done func(), code int) {
	add := func(name, about string, read func(context.Context) (any, error)) {
		parts = append(parts, support.Part{Name: name, About: about, Read: read})
	}
	add("version.json", "the version of the command line, and its platform", func(context.Context) (any, error) {
		return map[string]string{"version": buildinfo.Version, "commit": buildinfo.Commit(), "go_version": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}, nil
	})
	records, code := from.open(a, stores.Place.Read)
	if code >= 0 {
		return nil, nil, code
	}
	done = func() { records.Close() }
	overview, err := joined(records.Overviews(a.ctx, selection.Selection{Sort: "name"}))
	add("status.json", "the phase and the reason of every task: status -json", func(context.Context) (any, error) { return overview, err })
	add("events.json", "the latest events, as the API returns them", func(ctx context.Context) (any, error) { return records.Events(ctx, url.Values{"limit": {"1000"}}) })
	add("tasks.json", "the definitions of the tasks, without what may be a secret", func(ctx context.Context) (any, error) { return definitions(ctx, records.Client) })
	for _, t := range needingAttention(overview.Tasks) {
		name := url.PathEscape(t.Name)
		add("runs/"+name+".json", "the latest runs of task "+t.Name, func(ctx context.Context) (any, error) { return records.Runs(ctx, t.Name) })
		if t.LastRun != nil && t.LastRun.State != apispec.RunStateSucceeded {
			add("output/"+name+".txt", "Terraform's output of its last run", func(ctx context.Context) (any, error) {
				var text bytes.Buffer
				_, err := copyOutput(ctx, records.Client, apispec.Run{Task: t.Name, ID: t.LastRun.ID}, &text, false)
				return text.Bytes(), err
			})
			parts[len(parts)-1].Last = supportOutput
		}
	}
	if from.api.stack == "" {
		return parts, done, -1
	}
	st, code := a.findStack(from.api.stack)
	if code >= 0 {
		done()
		return nil, nil, code
	}
	add("stack.json", "the parameters and outputs of the stack", func(context.Context) (any, error) { return st.Describe(), nil })
	add("doctor.json", "what doctor -quick has found", func(ctx context.Context) (any, error) { return st.Examine(ctx, "", false), nil })
	for _, component := range stack.Components {
		read := func(name, about, filter string, age time.Duration) {
			add("logs/"+component+name, about, func(ctx context.Context) (any, error) { return st.Log(ctx, component, time.Now().Add(-age), filter) })
		}
		read(".jsonl", "the log of the last 15 minutes", "", 15*time.Minute)
		read("-problems.jsonl", "warnings and errors of the last 24 hours", stack.Problems, 24*time.Hour)
	}
	return parts, done, -1
}

// needingAttention returns tasks of which runs are collected: first those that are not
// applied.
func needingAttention(tasks []apispec.TaskOverview) []apispec.TaskOverview {
	calm := func(t apispec.TaskOverview) int {
		switch {
		case !t.Enabled, t.Phase == apispec.PhaseRemoved:
			return 2
		case t.Phase == apispec.PhaseApplied:
			return 1
		}
		return 0
	}
	tasks = slices.Clone(tasks)
	slices.SortStableFunc(tasks, func(a, b apispec.TaskOverview) int { return calm(a) - calm(b) })
	return tasks[:min(len(tasks), supportTasks)]
}

// definitions returns the definitions of the tasks without what may be a secret.
func definitions(ctx context.Context, client *apiclient.Client) (public []map[string]any, err error) {
	tasks, err := client.Tasks(ctx)
	for _, t := range tasks {
		keys, wrong := config.Public(t)
		public, err = append(public, keys), errors.Join(err, wrong)
	}
	return public, err
}
