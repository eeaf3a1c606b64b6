package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/terrapulse/terrapulse/internal/aws/stack"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
)

// stackFlag registers -stack: the deployment in AWS that a command reads or changes.
func stackFlag(f *flag.FlagSet, name *string) {
	f.StringVar(name, "stack", "", "The `name` of the CloudFormation stack of a deployment in AWS.")
}

// findStack returns the stack of this name. The exit code is -1 if all is well.
func (a *app) findStack(name string) (*stack.Stack, int) {
	if name == "" {
		return nil, a.fail(exitMissing, errors.New("name the stack with -stack"))
	}
	found, err := stack.Find(a.ctx, name)
	return found, a.fail(exitConfig, err)
}

// notWithStack are the flags that name another place than the stack, or say how to
// connect to it.
var notWithStack = []string{"http-addr", "port", "store", "config-file", "config-dir",
	"ca-cert", "ca-path", "client-cert", "client-key", "token", "token-file", "ssl-verify"}

// onePlace fails if flags name several places to read or to change: a stack, an
// instance or a store. The exit code is -1 if they do not.
func (a *app) onePlace(given map[string]bool) int {
	if (given["http-addr"] || given["port"]) && (given["store"] || given["config-file"] || given["config-dir"]) {
		return a.fail(exitFlags, errors.New("-http-addr names an instance: leave out -store, -config-file and -config-dir"))
	}
	for _, name := range notWithStack {
		if given["stack"] && given[name] {
			return a.fail(exitFlags, fmt.Errorf("-stack names a deployment in AWS, to which requests are signed: leave out -%s", name))
		}
	}
	return -1
}

// stackAPI returns a client of the API of a stack. The exit code is -1 if all is well.
func (a *app) stackAPI(name string) (*apiclient.Client, int) {
	st, code := a.findStack(name)
	if code >= 0 {
		return nil, code
	}
	client, err := st.API(a.ctx, stackUser(a.stderr))
	return client, a.fail(exitConfig, err)
}

// stackUser is the user of this machine.
func stackUser(warnings io.Writer) stack.User {
	return stack.User{Name: userAtHost(), Log: warningsTo(warnings)}
}
