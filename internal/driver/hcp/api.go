package hcp

import (
	"context"
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// API has the calls to HCP Terraform or Terraform Enterprise that the driver makes. The methods
// are safe for concurrent use. A call that returns an error may have had its effect: the driver
// reads again before it repeats a call that must happen once.
type API interface {
	// Workspace finds a workspace by its name, WorkspaceByID by its id. ErrNotFound also
	// means that the token may not read it.
	Workspace(ctx context.Context, organization, name string) (Workspace, error)
	WorkspaceByID(ctx context.Context, id string) (Workspace, error)
	CreateWorkspace(ctx context.Context, organization string, s Settings) (Workspace, error)
	UpdateWorkspace(ctx context.Context, id string, s Settings) (Workspace, error)
	AddTags(ctx context.Context, workspace string, tags []string) error
	// DeleteWorkspace deletes a workspace that manages no resources, else ErrConflict.
	DeleteWorkspace(ctx context.Context, id string) error

	Variables(ctx context.Context, workspace string) ([]Variable, error)
	// AllVariables also returns those that the workspace inherits from variable sets. The
	// error is ErrNotFound if this Terraform Enterprise is too old to tell.
	AllVariables(ctx context.Context, workspace string) ([]Variable, error)
	CreateVariable(ctx context.Context, workspace string, v Variable) error
	// SetVariableValue changes the value of a variable, and nothing else.
	SetVariableValue(ctx context.Context, workspace, id, value string) error
	DeleteVariable(ctx context.Context, workspace, id string) error

	CreateVersion(ctx context.Context, workspace string, speculative bool) (Version, error)
	Version(ctx context.Context, id string) (Version, error)
	Upload(ctx context.Context, v Version, archive []byte) error

	// CreateRun is never repeated by the implementation if its answer is lost.
	CreateRun(ctx context.Context, r NewRun) (Run, error)
	Run(ctx context.Context, id string) (Run, error)
	// Runs returns the newest runs of a workspace, at most 100: those that are plan-only, or
	// all others.
	Runs(ctx context.Context, workspace string, planOnly bool) ([]Run, error)
	// ActiveRuns returns the runs of these workspaces, by name, that have not ended. The
	// error is ErrNotFound if the server has no such list.
	ActiveRuns(ctx context.Context, organization string, workspaces []string) ([]Run, error)
	// Act returns ErrConflict if the run has moved on, so that the action is not possible.
	Act(ctx context.Context, run string, a Action, comment string) error
	// Events returns what happened to a run, the oldest first.
	Events(ctx context.Context, run string) ([]Event, error)

	// PlanJSON returns the plan as `terraform show -json` prints it; ErrNotFound if the
	// token may not read it.
	PlanJSON(ctx context.Context, plan string) ([]byte, error)
	// State returns the current state of a workspace; ErrNotFound if there is none, or if the token may
	// not read it, and ErrNoContent if only its content cannot be read.
	State(ctx context.Context, workspace string) (State, error)
	// Log returns the output of a plan or an apply so far.
	Log(ctx context.Context, url string) ([]byte, error)

	// Organization returns an error if the organization cannot be read.
	Organization(ctx context.Context, name string) error
	AgentPools(ctx context.Context, organization string) ([]AgentPool, error)
	Notifications(ctx context.Context, workspace string) ([]Notification, error)
	// SetNotification creates a notification, or changes it if it has an ID.
	SetNotification(ctx context.Context, workspace string, n Notification) error
	DeleteNotification(ctx context.Context, id string) error
}

// The errors of an API that the driver distinguishes, by errors.Is.
var (
	ErrNotFound = errors.New("it does not exist, or the token may not read it")
	ErrConflict = errors.New("its state does not permit that")
	ErrTaken    = errors.New("the request was refused as invalid") // also: the name is taken
	ErrDenied   = errors.New("the token is refused")
	// ErrNoContent is the error of a state that exists and whose content cannot be read.
	ErrNoContent = errors.New("the content of the state cannot be read")
	// ErrUnknown is the error of a call that may or may not have had its effect.
	ErrUnknown = errors.New("no answer came")
)

// Workspace is a workspace as far as the driver reads it.
type Workspace struct {
	ID, Name         string
	Organization     string // "" if it is not known
	ExecutionMode    string // remote, agent or local
	AgentPool        string // id
	TerraformVersion string
	AutoApply        bool
	Locked           bool
	LockedBy         string // a name, or the id of a run; "" if it is not known
	LockedByRun      bool
	VCS              string // the repository that is connected; "" for none
	SourceName       string // what has created it
	Tags             []string
	Version          string // current configuration version; "" for none
	Run              string // id of the current or latest run; "" for none
	Deletable        bool   // the token may delete it
	Resources        int    // in its state; 0 also if the server does not count them
	StateReadable    bool   // the server says that the token may read the state
}

// Settings are settings of a workspace to change. Nil leaves one as it is.
type Settings struct {
	Name, Description, ExecutionMode, AgentPool, TerraformVersion, SourceName *string
	AutoApply                                                                 *bool
	Tags                                                                      []string // only if it is created
}

// Variable is a variable of a workspace.
type Variable struct {
	ID, Key     string
	Value       string // "" as read if it is sensitive
	Description string
	Env         bool // an environment variable
	HCL         bool // Value is an expression
	Sensitive   bool
}

// Version is a configuration version.
type Version struct {
	ID, Status string // pending, fetching, uploaded, archived or errored
	Error      string
	UploadURL  string // signed: secret
}

// NewRun is a run to create. It is never applied without a confirmation.
type NewRun struct {
	Workspace, Version string // ids
	Message            string
	Destroy, PlanOnly  bool
	Variables          map[string]string // expressions by name, which win over variables of the workspace
}

// Run is a run in HCP Terraform.
type Run struct {
	ID, Status, Message string
	Workspace           string // id
	Name                string // of the workspace, if it is known
	Version             string // id
	PlanOnly, Destroy   bool
	HasChanges          bool // it says so, or it can be confirmed
	Confirmable         bool // it waits for a confirmation
	Discardable         bool
	Cancelable          bool
	Position            int    // in the queue of the organization
	Locked              bool   // the workspace is locked; only of ActiveRuns and Run
	ConfirmedBy         string // id of a user; "" for nobody
	Checked             bool   // a policy or a run task has judged it
	Plan, Apply         Phase
}

// Phase is the plan or the apply of a run.
type Phase struct {
	ID, Status           string
	Add, Change, Destroy int
	Counted              bool   // the three numbers are known
	LogURL               string // signed: secret
}

// changes returns the numbers.
func (p Phase) changes() *state.Changes {
	return &state.Changes{Add: p.Add, Change: p.Change, Destroy: p.Destroy, Unknown: !p.Counted}
}

// State is a state of Terraform.
type State struct {
	Run     string // id of the run that has written it; "" if none has
	Content []byte // secret
}

// Event is what happened to a run.
type Event struct {
	Action  string // such as confirmed, discarded or canceled
	By      string // name of the user; "" if it is not known
	User    string // id of the user; "" if nobody did it
	Comment string
	At      time.Time
}

// Action is what can be done with a run.
type Action string

// The actions.
const (
	Confirm Action = "apply"
	Discard Action = "discard"
	Cancel  Action = "cancel"
)

// AgentPool is a pool of agents.
type AgentPool struct{ ID, Name string }

// Notification is a notification of a workspace: a request that HCP Terraform sends.
type Notification struct {
	ID, Name, URL string
	Token         string // secret, with which requests are signed; not in answers
	Triggers      []string
}
