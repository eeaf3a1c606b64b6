package stack

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
)

// unreleased is the output Version of a template that was not released.
const unreleased = "checkout"

// versions are those of the parts of a deployment, and of the command line.
type versions struct {
	command, functions, template string
	container                    string // "" if no container was started
}

// compare checks that the parts work together. The functions get their settings from the template,
// so both must be of the same release. The container and the command line may be one minor version
// older or newer: they are updated at other times. A version that was not released has no order.
func (v versions) compare() invoke.Check {
	check := invoke.Check{Name: "versions"}
	var found []string
	for _, part := range []struct{ name, version string }{
		{"command line", v.command}, {"functions", v.functions}, {"template", v.template}, {"container", v.container},
	} {
		if part.version != "" {
			found = append(found, part.name+" "+part.version)
		}
	}
	check.Found = strings.Join(found, ", ")
	switch {
	case v.template != unreleased && v.template != "" && v.template != v.functions:
		check.Fix = "deploy the template of one release without changes to its functions"
	case farApart(v.container, v.functions):
		check.Fix = fmt.Sprintf("set RunnerImage to an image of version %s, and deploy the stack again", v.functions)
	case farApart(v.command, v.functions):
		check.Fix = fmt.Sprintf("install version %s of the command line, or deploy version %s of the stack", v.functions, v.command)
	default:
		check.OK = true
	}
	if !check.OK {
		check.Found = "too far apart: " + check.Found
	}
	return check
}

// farApart reports whether the major versions of two releases differ, or their minor versions by
// more than one.
func farApart(a, b string) bool {
	if !semver.IsValid(a) || !semver.IsValid(b) {
		return false
	}
	distance := minor(a) - minor(b)
	return semver.Major(a) != semver.Major(b) || distance < -1 || distance > 1
}

func minor(version string) int {
	_, text, _ := strings.Cut(semver.MajorMinor(version), ".")
	n, _ := strconv.Atoi(text) // a valid version has a number there
	return n
}
