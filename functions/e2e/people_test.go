//go:build linux

package e2e

import (
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
)

// With the policies of infra/organisation/people, the commands of each person work, and AWS refuses those of others.
func TestPeople_CommandsWorkWithTheirPolicies(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"url", "gateway"} {
		t.Run(where, func(t *testing.T) {
			o := options{parameters: rehearsal.Parameters{"Api": where}}
			c := deploy(t, o)
			address, stack := c.serveURL(ann), rehearse(t, o)
			c.register("web-1", 8080)
			c.module("")
			c.tasks(c.s3Backend(), "lb")
			c.addConfig("approval {\n  mode = \"always\"\n}\n")
			as := func(person string, args ...string) (out string, refused []string) {
				policy := stack.Person(t, person)
				address.limit(ann, policy)
				env := maps.Clone(address.env)
				maps.Copy(env, ann.environ())
				var mu sync.Mutex
				for service := range rights {
					name := "AWS_ENDPOINT_URL_" + service
					env[name] = guarded(t, service, c.names, c.env[name], func(request rehearsal.Request) bool {
						if policy.Allows(t, request) {
							return true
						}
						mu.Lock()
						defer mu.Unlock()
						refused = append(refused, request.String())
						return false
					})
				}
				text, err := c.shell("terrapulse "+strings.Join(append(args, "-stack=e2e"), " "), env).CombinedOutput()
				out = string(text)
				mu.Lock()
				defer mu.Unlock()
				if err != nil && strings.Contains(out, "is not authorized to access this resource") {
					refused = append(refused, "the HTTP API")
				} else if err != nil {
					out += err.Error()
				}
				return out, refused
			}
			works := func(want, person string, args ...string) {
				t.Helper()
				if out, refused := as(person, args...); refused != nil || !strings.Contains(out, want) {
					t.Fatalf("%s: %s: want %q, refused: %q\n%s", person, args, want, refused, out)
				}
			}
			isRefused := func(what, person string, args ...string) {
				t.Helper()
				if out, refused := as(person, args...); refused == nil || !strings.HasPrefix(refused[0], what) {
					t.Errorf("%s: %s: refused: %q, want %s\n%s", person, args, refused, what, out)
				}
			}
			isRefused("s3:", "operate", "bundle", "push", "-config-file=tasks.hcl")
			isRefused("s3:", "read", "bundle", "push", "-config-file=tasks.hcl")
			works("in force", "push", "bundle", "push", "-config-file=tasks.hcl")
			works("is unpacked", "push", "bundle", "pull", "../pulled")
			works("The files are the same", "push", "bundle", "diff", "-config-file=tasks.hcl")
			c.tickUntil("the plan waits", func() bool { return c.waits("lb") != nil })
			plan := "-plan=" + c.waits("lb").ID

			works("lb", "read", "status")
			works("lb", "read", "runs")
			works("1 to add", "operate", "invoke", "-inspect", "-wait")
			works("planned task lb", "operate", "doctor", "-task=lb")
			works("lb", "operate", "hold", "lb")
			works("lb", "operate", "release", "lb")
			isRefused("lambda:InvokeFunction", "read", "invoke", "-inspect")
			isRefused("lambda:InvokeFunction", "approve", "invoke", "-inspect")
			isRefused("the HTTP API", "push", "status")
			isRefused("the HTTP API", "deploy", "status")
			if where == "gateway" { // IAM knows no method of a function URL: there, grants decide
				isRefused("the HTTP API", "read", "approve", plan, "lb")
				isRefused("the HTTP API", "read", "run", "lb")
				isRefused("the HTTP API", "approve", "run", "lb")
			}
			works("lb", "approve", "approve", plan, "lb")
			c.tickUntil("it is applied", func() bool { return c.out("lb") == "web-1:8080" })
		})
	}
}
