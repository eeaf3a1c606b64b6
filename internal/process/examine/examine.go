// Package examine makes the checks of `terrapulse doctor` for instances on one machine and in a
// cluster: whether what an instance needs is there. Nothing is changed.
package examine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// checkLimit limits one check: a firewall that drops packets causes a timeout.
const checkLimit = 20 * time.Second

// Options say what is examined.
type Options struct {
	Files config.Options // the task files of the instance
	Store string         // URL of its store; "" is the one that the task files configure
	Now   func() time.Time
}

// Run makes all checks. If the task files cannot be read, nothing else is known.
func Run(ctx context.Context, o Options) []invoke.Check {
	cfg, err := config.Load(o.Files)
	files := doctor.Run(ctx, checkLimit, []doctor.Check{{
		Name: "task files", Look: func(context.Context) (string, error) { return checkFiles(cfg, err) }, Fix: "correct the files: `terrapulse validate` names each error with its line"}})
	if err != nil {
		return files
	}
	e := &examination{Options: o, cfg: cfg}
	e.client, e.unset = consul.New(cfg.Consul)
	e.answers = sync.OnceValue(func() error { return e.reach(ctx) })
	e.records = sync.OnceValues(func() (*records, error) { return e.read(ctx) })
	return append(files, doctor.Run(ctx, checkLimit, e.checks())...)
}

// examination is what the checks share.
type examination struct {
	Options
	cfg     *config.Config
	client  *consul.Client
	unset   error        // why there is no client
	answers func() error // nil if Consul answers and has a leader
	records func() (*records, error)
}

// records is what the store has; nil if there is no store yet.
type records struct {
	apispec.Overview
	place     stores.Place
	instances []member
}

func (e *examination) checks() []doctor.Check {
	checks := []doctor.Check{
		{Name: "consul", Look: e.checkConsul, Fix: "start Consul, or correct consul.address, consul.tls or CONSUL_HTTP_ADDR; Consul needs servers with a leader"},
		{Name: "clock", Look: e.checkClock, Fix: "synchronise this machine and Consul's with NTP: windows, schedules, approvals and, in a cluster, claims depend on the clock"},
		{Name: "consul rights", Look: e.checkRights, Fix: "give the token (consul.token, CONSUL_HTTP_TOKEN) the rights that " + docs.Page("acl.md") + " lists"},
		{Name: "consul writes", Look: e.checkWrites, Fix: "give the token (consul.token, CONSUL_HTTP_TOKEN) the rights that " + docs.Page("acl.md") + " lists"},
	}
	checks = append(checks, e.programChecks()...)
	return append(checks,
		doctor.Check{Name: "store", Look: e.checkStore, Fix: "let the user that runs Terrapulse read and write the store and its folder, or name another place with working_dir; a damaged store is restored from a backup: " + docs.Page("operate.md")},
		doctor.Check{Name: "instances", Look: e.checkInstances, Fix: "start the instances that should run, all with the same release and the same Terraform; see their logs and " + docs.Page("high-availability.md")},
		doctor.Check{Name: "paused", Look: e.checkPaused, Fix: "make the store readable first"},
		doctor.Check{Name: "tasks", Look: e.checkTasks, Fix: "see `terrapulse status` for what each of them needs, and `terrapulse logs TASK`"},
		doctor.Check{Name: "disk", Look: e.checkDisk, Fix: "free some space, or put working_dir on a larger disk: providers, states and the store need it"},
		doctor.Check{Name: "port", Look: e.checkPort, Fix: "end the program that has the port, or set port in the task files to another one"},
	)
}

// checkFiles reports all that is wrong with the task files and with the modules of the tasks.
func checkFiles(cfg *config.Config, err error) (string, error) {
	if err != nil {
		return "", oneLine(err)
	}
	if found := driver.CheckAll(instance.Checker(cfg), cfg).Err(); found != nil {
		return "", oneLine(found)
	}
	found := tasksOf(len(cfg.Tasks))
	if last := cfg.LastMayGo(); last != "" {
		found += "; " + last
	}
	if n := len(cfg.Warnings); n > 0 {
		found += fmt.Sprintf("; warnings: %d, `terrapulse validate` prints them", n)
	}
	return found, nil
}

// tasksOf is a number of tasks in words.
func tasksOf(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// oneLine joins the lines of an error.
func oneLine(err error) error {
	return errors.New(strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; "))
}

// notChecked says why nothing is known.
func notChecked(format string, args ...any) error {
	return &doctor.NotCheckedError{Err: fmt.Errorf(format, args...)}
}
