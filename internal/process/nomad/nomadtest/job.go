package nomadtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// RunnerJob returns a parameterized job "runner" that carries out a script of the shell, with these
// variables and that much memory, in MB.
func RunnerJob(script string, env map[string]string, memory int) string {
	var variables strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&variables, "        %s = %q\n", name, env[name])
	}
	return fmt.Sprintf(`
job "runner" {
  type = "batch"
  parameterized {
    meta_required = ["launch"]
  }
  group "runner" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "runner" {
      driver       = "raw_exec"
      kill_timeout = "2m"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      env {
%s      }
      resources {
        cpu    = 50
        memory = %d
      }
    }
  }
}
`, script, variables.String(), memory)
}
