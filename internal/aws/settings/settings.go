// Package settings reads the settings of the functions and of the container from their
// environment, which template.yaml sets.
package settings

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
)

// Each setting names its environment variable and, under "from", what sets it in the template.

// Common are the settings that every function has.
type Common struct {
	Stack string `env:"TERRAPULSE_STACK,notEmpty" from:"the stack's name"`
	Table string `env:"TERRAPULSE_TABLE,notEmpty" from:"the resource Table"`
}

// Reconcile are the settings of functions/reconcile.
type Reconcile struct {
	Common
	Bundle s3url.URL `env:"TERRAPULSE_BUNDLE,notEmpty" from:"the bucket, made or given by the parameter Bucket"`
	Logs   s3url.URL `env:"TERRAPULSE_LOGS,notEmpty" from:"the bucket, made or given by the parameter Bucket"`
	// LogGroups is the beginning of the names of the log groups, for links.
	LogGroups string `env:"TERRAPULSE_LOG_GROUPS,notEmpty" from:"the resource ReconcileLog"`
	// SecretARN is the ARN of the stack's secret; empty without one. Consul's address and further
	// settings are in the variables of Consul's own tools.
	SecretARN string `env:"TERRAPULSE_SECRET_ARN" from:"the parameter SecretArns"`
	// Window is how long an invocation watches the gates; 0 polls them once.
	Window time.Duration `env:"TERRAPULSE_WINDOW" envDefault:"0s" from:"the parameter PollSeconds"`
	// ScheduleMinutes is the time between two invocations of the schedule.
	ScheduleMinutes int `env:"TERRAPULSE_SCHEDULE_MINUTES" envDefault:"1" from:"the parameter PollSeconds"`

	Cluster        string `env:"TERRAPULSE_CLUSTER,notEmpty" from:"the resource Cluster"`
	TaskDefinition string `env:"TERRAPULSE_TASK_DEFINITION,notEmpty" from:"the resource TaskDefinition"`
	// PlanRole is the ARN of the role of containers that apply nothing.
	PlanRole string `env:"TERRAPULSE_PLAN_ROLE,notEmpty" from:"the resource PlanRole"`
	// Program is the location of the program that a container loads; empty if its image contains it.
	Program        s3url.URL `env:"TERRAPULSE_PROGRAM" from:"the resource Program"`
	Capacity       Capacity  `env:"TERRAPULSE_CAPACITY" envDefault:"FARGATE" from:"the parameter Capacity"`
	Subnets        []string  `env:"TERRAPULSE_SUBNETS,notEmpty" from:"the parameter Subnets"`
	SecurityGroups []string  `env:"TERRAPULSE_SECURITY_GROUPS" from:"the parameter SecurityGroups"`
	PublicIP       bool      `env:"TERRAPULSE_PUBLIC_IP" envDefault:"false" from:"the parameter AssignPublicIp"`
	// MaxContainers limits the containers at a time; further launches wait for the next tick.
	MaxContainers int `env:"TERRAPULSE_MAX_CONTAINERS" envDefault:"40" from:"the parameter MaxContainers"`
	// Linger is how long containers wait for another launch after theirs; 0 ends them at once.
	Linger time.Duration `env:"TERRAPULSE_LINGER" envDefault:"0s" from:"the parameter Linger"`
	// Function is the name of this function, which containers that linger invoke.
	Function string `env:"AWS_LAMBDA_FUNCTION_NAME" from:"Lambda"`
	// EventBus is the bus that gets events; none if it is empty.
	EventBus string `env:"TERRAPULSE_EVENT_BUS" from:"the parameter EventBus"`
}

// Settle are the settings of functions/settle.
type Settle struct {
	Common
	Cluster           string `env:"TERRAPULSE_CLUSTER,notEmpty" from:"the resource Cluster"`
	TaskDefinition    string `env:"TERRAPULSE_TASK_DEFINITION,notEmpty" from:"the resource TaskDefinition"`
	ReconcileFunction string `env:"TERRAPULSE_RECONCILE_FUNCTION,notEmpty" from:"the resource ReconcileFunction"`
}

// Notification are the settings of functions/notification.
type Notification struct {
	ReconcileFunction string `env:"TERRAPULSE_RECONCILE_FUNCTION,notEmpty" from:"the resource ReconcileFunction"`
	// KeyARN is the ARN of the key with which HCP Terraform signs notifications.
	KeyARN string `env:"TERRAPULSE_HCP_NOTIFICATION_TOKEN_ARN,notEmpty" from:"the parameter HcpNotificationTokenArn"`
}

// API is what functions/api has.
type API struct {
	Common
	Bundle            s3url.URL `env:"TERRAPULSE_BUNDLE,notEmpty" from:"the bucket, made or given by the parameter Bucket"`
	ReconcileFunction string    `env:"TERRAPULSE_RECONCILE_FUNCTION,notEmpty" from:"the resource ReconcileFunction"`
	// Cluster is for links to containers.
	Cluster string `env:"TERRAPULSE_CLUSTER,notEmpty" from:"the resource Cluster"`
	// LogGroups is the beginning of the names of the log groups, for links.
	LogGroups string `env:"TERRAPULSE_LOG_GROUPS,notEmpty" from:"the resource ApiLog"`
	// Act are the callers that may change things, if any; the others may read.
	Act Principals `env:"TERRAPULSE_ACT_ARNS,required" from:"the parameter ActArns"`
}

// Runner are the settings of the container.
type Runner struct {
	Common
	Bundle s3url.URL `env:"TERRAPULSE_BUNDLE,notEmpty" from:"the bucket, made or given by the parameter Bucket"`
	Logs   s3url.URL `env:"TERRAPULSE_LOGS,notEmpty" from:"the bucket, made or given by the parameter Bucket"`
	Launch string    `env:"TERRAPULSE_LAUNCH,notEmpty" from:"functions/reconcile, which starts the container"`
	// ReconcileFunction is invoked after the launches of a container that lingers; empty if it does not.
	ReconcileFunction string `env:"TERRAPULSE_RECONCILE_FUNCTION" from:"functions/reconcile, which starts the container"`
	// Parallel limits the runs at a time; 0 means one per core, and at least two.
	Parallel int    `env:"TERRAPULSE_PARALLEL" envDefault:"0" from:"the parameter RunnerParallel"`
	Work     string `env:"TERRAPULSE_WORK" envDefault:"/work" from:"the resource TaskDefinition"`

	// Trust is a folder with CA certificates, from layers/trust; empty if the image contains them.
	Trust string `env:"TERRAPULSE_TRUST" from:"the resource TaskDefinition"`

	// Secret is the content of the stack's secret, which ECS reads.
	Secret secrets.Stack `env:"TERRAPULSE_SECRET" from:"the parameter SecretArns"`
}

// Capacity are the ECS capacity providers for containers.
type Capacity []CapacityProvider

// CapacityProvider is a capacity provider with its share of the containers.
type CapacityProvider struct {
	Name   string
	Weight int // 1 to 1,000
}

// UnmarshalText parses names with optional weights, such as FARGATE or FARGATE_SPOT=3,FARGATE=1.
func (c *Capacity) UnmarshalText(text []byte) error {
	*c = nil
	for part := range strings.SplitSeq(string(text), ",") {
		name, share, weighted := strings.Cut(strings.TrimSpace(part), "=")
		weight := 1
		if weighted {
			var err error
			if weight, err = strconv.Atoi(share); err != nil || weight < 1 || weight > 1000 {
				return fmt.Errorf("the weight of %s is %q: give a number from 1 to 1000", name, share)
			}
		}
		if name == "" {
			return fmt.Errorf("%q names no capacity provider: write FARGATE, FARGATE_SPOT or FARGATE_SPOT=3,FARGATE=1", text)
		}
		*c = append(*c, CapacityProvider{name, weight})
	}
	return nil
}

// Read reads the settings T from an environment in the format of os.Environ. The error names all
// wrong variables, and what sets them.
func Read[T Reconcile | Settle | Notification | API | Runner](environ []string) (T, error) {
	var settings T
	err := env.ParseWithOptions(&settings, env.Options{Environment: env.ToMap(environ)})
	if err == nil {
		return settings, nil
	}
	variables := Variables[T]()
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return settings, err
	}
	return settings, errors.Join(list.Map(all.Errors, func(err error) error { return explain(err, variables) })...)
}

// Variable is an environment variable.
type Variable struct {
	Name  string
	From  string // what in the template sets it
	field string
}

// Variables lists the variables of the settings T.
func Variables[T Reconcile | Settle | Notification | API | Runner]() []Variable {
	var all []Variable
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		if name != "" {
			all = append(all, Variable{name, f.Tag.Get("from"), f.Name})
		}
	}
	return all
}

// explain adds to an error the variable, and what to do.
func explain(err error, variables []Variable) error {
	unset, isUnset := errors.AsType[env.VarIsNotSetError](err)
	empty, isEmpty := errors.AsType[env.EmptyVarError](err)
	wrong, isWrong := errors.AsType[env.ParseError](err)
	for _, v := range variables {
		switch {
		case isUnset && unset.Key == v.Name, isEmpty && empty.Key == v.Name:
			return fmt.Errorf("environment variable %s is not set: it comes from %s; deploy the stack again", v.Name, v.From)
		case isWrong && wrong.Name == v.field:
			return fmt.Errorf("environment variable %s: %w; it comes from %s: correct it there", v.Name, wrong.Err, v.From)
		}
	}
	return err
}
