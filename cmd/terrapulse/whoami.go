package main

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
)

// senderReport is what whoami -json prints.
type senderReport struct {
	Sender string                 `json:"sender"`
	Proof  string                 `json:"proof,omitempty"`
	Groups []string               `json:"groups,omitempty"`
	Roles  []apispec.RoleOfSender `json:"roles"`
}

// whoamiCommand says who the user is to an API.
func (a *app) whoamiCommand() command {
	var api apiFlags
	f := a.flagSet("whoami")
	api.registerCurrent(f)
	return command{flags: f, synopsis: "Show who you are to an instance, and what you may do",
		examples: []string{"-http-addr=https://terrapulse.example.com:8558", "-stack=network"}, codes: codesOfTask,
		help: `Usage: terrapulse whoami [flags]

  Shows who you are to a running instance or a deployment in AWS, what proves
  it, your groups, and your roles. It works with each kind of identity: a token,
  a client certificate, a sign-in with terrapulse login, or AWS credentials.
`,
		run: func([]string) int {
			client, code := a.apiClient(&api)
			if code >= 0 {
				return code
			}
			defer client.Close()
			who, err := client.Version(a.ctx)
			if err != nil {
				return a.problem("unable to find out who you are", err)
			}
			a.printSender(who, "")
			return exitOK
		},
	}
}

// printSender prints who sends requests, as the API sees it.
func (a *app) printSender(v apispec.VersionResponse, intro string) {
	r := senderReport{Sender: apispec.Deref(v.Sender), Proof: apispec.Deref(v.Proof), Groups: apispec.Deref(v.Groups), Roles: apispec.Deref(v.Roles)}
	if a.json {
		a.printJSON(r)
		return
	}
	fmt.Fprintf(a.stdout, "%s%s\n", intro, r.Sender)
	if r.Proof != "" {
		fmt.Fprintf(a.stdout, "Proven by: %s\n", r.Proof)
	}
	if len(r.Groups) > 0 {
		fmt.Fprintf(a.stdout, "Groups: %s\n", strings.Join(r.Groups, ", "))
	}
	fmt.Fprintf(a.stdout, "Roles: %s\n", apiview.Rights(v))
}
