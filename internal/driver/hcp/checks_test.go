package hcp_test

import (
	"fmt"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
)

// checkedModule has a check block that fails unless the name is good.
const checkedModule = module + `
check "name" {
  assert {
    condition     = terraform_data.named.output == "good"
    error_message = "The name is ${terraform_data.named.output}."
  }
}
`

// checked is a task whose module has a check block, and what is found in its runs.
func checked(t *testing.T, gaps ...hcptest.Gap) (s *task, found func(name string) string) {
	t.Helper()
	s = newTask(t, hcptest.With(gaps...))
	s.module(checkedModule)
	n := 0
	return s, func(name string) string {
		t.Helper()
		s.next(fmt.Sprint("run", n))
		n++
		s.name(name)
		s.succeeds()
		last := s.done.Checks
		if last == nil {
			t.Fatalf("nothing is said about check blocks\n%s", s.out.String())
		}
		return fmt.Sprint(last.Failing, last.Unknown, last.Err)
	}
}

func TestDriver_FailingCheckBlocksOfARunAreFound(t *testing.T) {
	const failing = "[module.web.check.name: The name is bad.] [] <nil>"
	for addresses, gaps := range map[string][]hcptest.Gap{"whole": nil, "relative": {hcptest.RelativeAddresses}} {
		t.Run(addresses+" addresses", func(t *testing.T) {
			t.Parallel()
			_, found := checked(t, gaps...)
			for _, run := range []struct{ name, want string }{{"bad", failing}, {"bad", failing}, {"good", "[] [] <nil>"}, {"good", "[] [] <nil>"}} {
				if got := found(run.name); got != run.want {
					t.Errorf("with the name %s, it is found %s, want %s", run.name, got, run.want)
				}
			}
		})
	}
}

func TestDriver_CheckBlocksThatCannotBeReadFailNothing(t *testing.T) {
	t.Parallel()
	s, found := checked(t)
	s.hcp.Restrict(s.hcp.Token, hcptest.Rights{NoPlanJSON: true, NoState: true})
	for range 2 { // one that is applied, and one without changes
		contains(t, found("bad"), "[] [] read the ", "the token may not read it: give its team the right")
	}
	contains(t, s.out.String(), "What the check blocks of the module have found cannot be read")
}
