package policycheck

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// Keys are the keys of a check block.
type Keys struct {
	block.Labelled
	Command block.Strings  `key:"command" secret:"arguments" example:"conftest" doc:"program and arguments, without a shell, in the base folder of relative module paths; exit code 0: the plan may be applied"`
	OnFail  block.String   `key:"on_fail" default:"hold" one:"hold fail" doc:"'hold': a plan that the check refuses waits for an approval; 'fail': the run fails and cannot be approved"`
	Timeout block.Duration `key:"timeout" default:"30s" form:"delay" doc:"time limit, after which the plan counts as refused"`
	Files   block.Strings  `key:"files" unset:"none" example:"policy" doc:"files and folders that the check reads: a bundle includes them; if they change, a waiting plan is judged again"`
	Enabled block.Bool     `key:"enabled" default:"true" doc:"'false': leave out this check, such as a global one in a task"`
}

var named = block.Named[Spec]{What: "check", Name: func(s Spec) string { return s.Name }, New: func(name string) Spec {
	return Spec{Name: name, Enabled: true, OnFail: Hold, Timeout: 30 * time.Second}
}}

// Specs checks the blocks, and returns the checks with those of parents, as block.Merge does. read
// returns what identifies the content of files; nil if they are not read.
func Specs(r *block.Report, blocks []Keys, parents []Spec, read func(files []string) (content string, err error)) []Spec {
	return block.Merge(r, named, blocks, parents, func(k *Keys, parent Spec) Spec { return k.spec(r, parent, read) })
}

func (k *Keys) spec(r *block.Report, parent Spec, read func([]string) (string, error)) Spec {
	c := Spec{
		Name: k.Label, Enabled: k.Enabled.Or(parent.Enabled), Command: k.Command.Or(parent.Command),
		OnFail: k.OnFail.Or(parent.OnFail), Timeout: k.Timeout.Or(parent.Timeout),
		Files: k.Files.Or(parent.Files), Content: parent.Content,
	}
	if len(c.Command) == 0 || c.Command[0] == "" {
		r.Missing(k.Key("command"), "the check has no command", `program and arguments, such as ["conftest", "test", "--policy", "policy", "-"]`)
	}
	if c.OnFail != Hold && c.OnFail != Fail {
		r.Fail(k.OnFail.Origin, "invalid on_fail "+block.Quoted(c.OnFail), "allowed: hold, fail")
	}
	if c.Timeout <= 0 {
		r.Fail(k.Timeout.Origin, "the timeout must be longer than 0s", `such as "30s"`)
	}
	if k.Files.Set && read != nil {
		var err error
		if c.Content, err = read(c.Files); err != nil {
			r.Fail(k.Files.Origin, "the files of the check cannot be read: "+err.Error(), "a path is relative to the folder in which Terrapulse is started")
		}
	}
	return c
}
