package config_test

import (
	"fmt"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

func TestDigestNamed_OnlyTheNameDiffers(t *testing.T) {
	dir := t.TempDir()
	const task = "task {\n name = %q\n module = \"./m\"\n%s condition \"services\" {\n names = [\"web\"]\n }\n}\n"
	was := configtest.Load(t, dir, "f.hcl", fmt.Sprintf(task, "old", ""))
	for other, same := range map[string]bool{"": true, " moved_from = \"old\"\n": true, " version = \"1.0\"\n": false, " working_dir = \"elsewhere\"\n": true} {
		is := configtest.Load(t, dir, "f.hcl", fmt.Sprintf(task, "new", other))
		if got := is.Tasks[0].DigestNamed(is, "old") == was.Tasks[0].Digest(was); got != same {
			t.Errorf("with %q, the definitions are the same: %v", other, got)
		}
		if is.Tasks[0].DigestNamed(is, "new") != is.Tasks[0].Digest(is) {
			t.Error("under its own name, the task has another digest")
		}
	}
}
