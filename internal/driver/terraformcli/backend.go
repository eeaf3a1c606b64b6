package terraformcli

import (
	"regexp"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Most backends have the workspace default and any number of others, and create
// each when its state is opened. Exceptions: http has only one state; cloud has the
// workspace that its block workspaces names; remote has such a one or, with a
// prefix, any number of others but no default, and each must be created first.

// defaultWorkspace is the workspace that Terraform uses by default.
const defaultWorkspace = "default"

// workspaceOf returns the workspace of a task's state: the task's name, if the
// backend has several workspaces.
func workspaceOf(b config.Backend, task string) string {
	name, fixed := fixedWorkspace(b)
	switch {
	case !fixed && b.Type != "http":
		return task
	case b.Type == "cloud":
		return name
	default:
		return defaultWorkspace
	}
}

// hasWorkspaces reports whether the backend keeps the states of several tasks apart.
func hasWorkspaces(b config.Backend) bool {
	_, fixed := fixedWorkspace(b)
	return !fixed && b.Type != "http"
}

// hasDefault reports whether the backend has the default workspace, or another
// that it selects by itself.
func hasDefault(b config.Backend) bool { return b.Type != "remote" || !hasWorkspaces(b) }

// fixedWorkspace is the one workspace that a remote or cloud backend names.
func fixedWorkspace(b config.Backend) (name string, ok bool) {
	if b.Type != "remote" && b.Type != "cloud" {
		return "", false
	}
	for _, workspaces := range b.Body.Blocks["workspaces"] {
		if name := argument(workspaces, "name"); name != "" {
			return name, true
		}
	}
	return "", false
}

// argument returns an argument that is a text; "" if it is not set or another
// type.
func argument(b config.Body, name string) string {
	if v, ok := b.Attributes[name]; ok && v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
		return v.AsString()
	}
	return ""
}

// secretArgument matches the places of the arguments of all backends that hold
// credentials, but not longer names such as secret_suffix.
var secretArgument = regexp.MustCompile(`(?:^|[._])(?:password|secret|token|auth|credentials|conn_str|key_material|` +
	`(?:access|secret|client|private|customer|encryption)_key)$`)

// credentials returns the secrets in a backend's arguments. Terraform repeats some
// in its errors, such as a conn_str that it cannot parse.
func credentials(b config.Body) []string {
	var found []string
	b.Map(func(place, text string) string {
		if secretArgument.MatchString(place) {
			found = append(found, text)
		}
		return text
	})
	return found
}
