package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkLinearTask finds each of many tasks by its name, also after a change through the API.
func BenchmarkLinearTask(b *testing.B) {
	testtools.Linear(b, 1000, func(n int) func() {
		var files strings.Builder
		for i := range n {
			fmt.Fprintf(&files, "task {\n name = \"t-%d\"\n module = \"./m\"\n condition \"services\" {\n names = [\"web\"]\n }\n}\n", i)
		}
		cfg := configtest.Load(b, b.TempDir(), "f.hcl", files.String())
		effective, _ := cfg.With([]config.Change{{Task: "t-0", Enabled: new(false)}})
		return func() {
			for _, c := range []*config.Config{cfg, effective} {
				for i := range n {
					if task, ok := c.Task(fmt.Sprint("t-", i)); !ok || task.Name != fmt.Sprint("t-", i) {
						b.Fatalf("task %d: %v", i, task)
					}
				}
			}
		}
	})
}
