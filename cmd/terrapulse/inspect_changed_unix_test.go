//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestInspect_PlansChangedFilesAtAnInstance(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("web", onWeb) + s.task("same", onWeb) + s.task("gone", onWeb))
	p := s.start("-config-file", file)
	address := "-http-addr=" + p.served()
	eventually(t, "all are applied", func() bool { return s.read("web.txt") != "" && s.read("same.txt") != "" && s.read("gone.txt") != "" })

	s.write("changed/web.tfvars", fmt.Sprintf("file = %q\n", s.path("elsewhere.txt"))) // web would replace its file
	web := strings.Replace(s.task("web", "approval = \"always\"\n"+onWeb), s.path("web.tfvars"), s.path("changed/web.tfvars"), 1)
	changed := s.write("changed/tasks.hcl", web+s.task("same", onWeb)+s.task("new", onWeb))
	plain := s.run("inspect", address, "-config-file", changed, "-detailed-exitcode")
	wantCode(t, plain, exitChanges)
	wantText(t, plain.stdout, "### Task web", "### Task new", "2 of 3 tasks differ", "Not in these files: gone", "would wait for an approval")
	if strings.Contains(plain.stdout, "### Task same") {
		t.Errorf("an unchanged task was planned:\n%s", plain.stdout)
	}
	markdown := s.run("inspect", address, "-config-file", changed, "-markdown")
	wantCode(t, markdown, exitOK)
	wantText(t, markdown.stdout, "### Terrapulse: 2 of 3 tasks planned, 2 with changes, 0 failed", "| web | 1 to add, 0 to change, 1 to destroy | would wait for an approval",
		"| new (new) | 1 to add", "<details><summary>web: 1 to add", "local_file.out must be replaced")
	if tasks := s.run("status", address).stdout; !strings.Contains(tasks, "same") || strings.Contains(tasks, "new") || s.read("elsewhere.txt") != "" {
		t.Errorf("something was kept or applied: %s", tasks)
	}
	wantText(t, markdown.stdout, "Not compared: the code of local modules")

	// Another guard for all tasks, and other code of a module, show in no plan.
	task := strings.Replace(s.task("same", onWeb), s.path("mod"), "./mod", 1)
	s.write("after.hcl", "guard {\n enabled = false\n}\n"+task)
	s.write("base/after.hcl", task)
	s.write("base/mod/main.tf", "variable \"services\" {}\n")
	since := s.run("inspect", address, "-markdown", "-config-file", "after.hcl", "-base", "base")
	wantText(t, since.stdout, "Changed: guard.", "Changed: task same: guard", "so no plan shows this change: same")
	if strings.Contains(since.stdout, "Not compared") {
		t.Errorf("the comment says:\n%s", since.stdout)
	}
	broken := s.run("inspect", address, "-markdown", "-config-file", s.write("broken/tasks.hcl", strings.Replace(s.task("web", onWeb), s.path("mod"), s.path("nowhere"), 1)))
	wantCode(t, broken, exitError)
	wantText(t, broken.stdout, "1 failed", "| web | failed |")
}

// With roles, a token plans what it may create, and a comment has nothing of tasks that it may not view.
func TestInspect_OfChangedFilesNeedsTheRoleThatCreatesTheTasks(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.write("mod/secret.tf", "variable \"secret\" {\n  type      = string\n  sensitive = true\n  default   = \"\"\n}\n")
	secret := strings.Replace(onWeb, "condition", "variables = { secret = \"\\\"hunter2\\\"\" }\n  condition", 1)
	all := s.task("web-a", onWeb) + s.task("web-b", secret) + s.task("db", onWeb) + s.task("firewall", onWeb) + s.task("web-old", onWeb)
	file := s.config("api {\n" + `
  token = "{{ env \"API_TOKEN\" }}"
  access {
    grant {
      roles = ["administer"]
      to    = ["token:ci", "token:web"]
      tasks = ["web-*"]
    }
    grant {
      roles = ["view"]
      to    = ["token:ci"]
      tasks = ["db"]
    }
    grant {
      roles = ["view"]
      to    = ["token:reader"]
    }
    grant {
      roles = ["operate", "approve"]
      to    = ["token:operator"]
    }
  }
}
` + all)
	s.env = append(s.env, "API_TOKEN=the-token-of-the-configuration")
	p := s.start("-config-file", file)
	address := "-http-addr=" + p.served()
	eventually(t, "all are applied", func() bool {
		return s.read("web-old.txt") != "" && s.read("db.txt") != "" && s.read("firewall.txt") != ""
	})
	tokens := map[string]string{"nobody": "a-token-that-is-not-known-here"}
	for _, name := range []string{"ci", "web", "reader", "operator", "stranger"} {
		tokens[name] = s.namedToken(name)
	}
	as := func(name, file string, code int, args ...string) result {
		t.Helper()
		r := s.run(append([]string{"inspect", address, "-token=" + tokens[name], "-config-file", file}, args...)...)
		wantCode(t, r, code)
		if strings.Contains(r.stdout+r.stderr, tokens[name]) || strings.Contains(r.stdout, "hunter2") {
			t.Errorf("a secret is printed:\n%s", r.stdout)
		}
		return r
	}
	const fix = "an administrator can give it with a grant in api.access of the configuration"

	// web-a is changed, web-new is new, web-old is gone; db and firewall are changed, too.
	always := "approval = \"always\"\n" + onWeb
	changed := s.write("changed/tasks.hcl", s.task("web-a", always)+s.task("web-b", secret)+s.task("web-new", onWeb)+s.task("db", always)+s.task("firewall", always))
	ci := as("ci", changed, exitError, "-markdown")
	wantText(t, ci.stdout, "### Terrapulse: 2 of 5 tasks planned, 1 with changes, 0 failed, 1 not planned", "| web-a | no changes |", "| web-new (new) | 1 to add",
		"| db | not planned | token:ci may view, but needs the role administer for task db: "+fix, "Not in these files: web-old.", "Left out: 1 task of these files, because token:ci may not view them at the instance")
	if strings.Contains(ci.stdout+ci.stderr, "firewall") || strings.Contains(ci.stdout, "web-b") {
		t.Errorf("the comment has a task that the token may not view, or one that is the same:\n%s", ci.stdout)
	}
	web := as("web", changed, exitOK)
	wantText(t, web.stdout, "### Task web-a", "### Task web-new", "Left out: 2 tasks", "2 of 5 tasks differ")
	if strings.Contains(web.stdout, "firewall") || strings.Contains(web.stdout, "### Task db") {
		t.Errorf("tasks are shown that the token may not view:\n%s", web.stdout)
	}
	wantText(t, as("web", changed, exitError, "-markdown", "firewall").stdout, "| firewall | not planned | token:web needs the role administer for task firewall, and has none: ")

	// To view or to operate tasks is not enough: a plan runs what the files name, with the rights of the instance.
	for name, may := range map[string]string{"reader": "view", "operator": "view, operate and approve"} {
		r := as(name, changed, exitError, "-markdown")
		wantText(t, r.stdout, "0 of 5 tasks planned, 0 with changes, 0 failed, 4 not planned", "| web-a | not planned | token:"+name+" may "+may+", but needs the role administer for task web-a: "+fix)
		if strings.Contains(r.stdout, "web-b") || strings.Contains(r.stdout, "Left out") {
			t.Errorf("a task that differs only in what is masked is listed:\n%s", r.stdout)
		}
	}
	wantText(t, as("stranger", changed, exitError).stderr, "token:stranger needs the role view, and has none")
	wantText(t, as("nobody", changed, exitError).stderr, "not valid")
	tokens["configuration"] = "the-token-of-the-configuration"
	wantText(t, as("configuration", changed, exitOK).stdout, "4 of 5 tasks differ")
}

func TestMarkdown_FitsIntoACommentAndHasNoMarkupOfPlans(t *testing.T) {
	var planned []inspectedTask
	for i := range 40 {
		planned = append(planned, inspectedTask{Task: fmt.Sprintf("t%d", i), Some: true, Plan: strings.Repeat("+ line of the plan\n", 1000) + "```\n</details> @everyone"})
	}
	text := asMarkdown(planned, comparison{tasks: 40})
	if len(text) > 65_000 || strings.Count(text, "<details>") != 40 || strings.Count(text, "more lines") != 40 {
		t.Errorf("%d bytes, %d plans", len(text), strings.Count(text, "<details>"))
	}
	one := asMarkdown([]inspectedTask{{Task: "a|b", Error: "it broke\n```\nx"}}, comparison{tasks: 1, gone: []string{"<b>@x"}})
	wantText(t, one, `| a\|b | failed | it broke |`, "````\nit broke", "&lt;b&gt;")
	if strings.Contains(one, "@x") {
		t.Error("a name mentions somebody")
	}
}

// forge is the API of GitHub or GitLab, as far as comment.sh uses it.
type forge struct {
	mu       sync.Mutex
	comments []map[string]any
	seen     []string
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("Private-Token"))
	switch r.Method {
	case http.MethodGet:
		var page int
		_, _ = fmt.Sscan(r.URL.Query().Get("page"), &page)
		from := min((page-1)*100, len(f.comments))
		_ = json.NewEncoder(w).Encode(append([]map[string]any{}, f.comments[from:min(from+100, len(f.comments))]...))
	default:
		var in map[string]any
		if json.NewDecoder(r.Body).Decode(&in) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if r.Method == http.MethodPost {
			in["id"] = 1000 + len(f.comments)
			f.comments = append(f.comments, in)
			return
		}
		for _, c := range f.comments {
			if strings.HasSuffix(r.URL.Path, fmt.Sprint("/", c["id"])) {
				c["body"] = in["body"]
			}
		}
	}
}

// The scripts of both jobs, as GitHub and GitLab run them, write the plans of the changed files as a comment, and
// write it again among many others. The job fails if a plan does, and the comment says so.
func TestCIExamples_CommentThePlansOfTheChangedFiles(t *testing.T) {
	for _, tool := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s here", tool)
		}
	}
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.env = append(s.env, "API_TOKEN=the-token-of-the-instance")
	p := s.start("-config-file", s.config("api {\n  token = \"{{ env \\\"API_TOKEN\\\" }}\"\n}\n"+s.task("web", onWeb)))
	address := p.served()
	eventually(t, "it is applied", func() bool { return s.read("web.txt") != "" })
	script, err := os.ReadFile(filepath.Join(testtools.Root(t), "examples/ci/daemon/comment.sh"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("bin/terrapulse", fmt.Sprintf("#!/bin/sh\nTERRAPULSE_TEST_AS_PROGRAM=1 exec %q \"$@\"\n", os.Args[0]))
	s.write("bin/git", "#!/bin/sh\n") // it makes the folder base
	for file, text := range map[string]string{"repository/comment.sh": string(script), "repository/base/tasks/tasks.hcl": "guard {\n enabled = false\n}\n" + s.task("web", onWeb), "repository/tasks/tasks.hcl": s.task("web", "approval = \"always\"\n"+onWeb) + s.task("new", onWeb)} {
		s.write(file, text)
	}
	f := &forge{}
	server := httptest.NewServer(f)
	defer server.Close()
	settings := map[string]string{"TERRAPULSE_ADDRESS": address, "TERRAPULSE_TOKEN": "the-token-of-the-instance"}
	jobs := map[string]ciJob{"github": githubJob(t, server.URL, settings), "gitlab": gitlabJob(t, server.URL, settings)}
	changed := s.read("repository/tasks/tasks.hcl")
	for name, job := range jobs {
		f.comments, f.seen = nil, nil
		for i := range 130 {
			f.comments = append(f.comments, map[string]any{"id": i, "body": "looks <b>good</b>"})
		}
		says := func(fails bool, want ...string) {
			t.Helper()
			if out, err := job.run(s); (err != nil) != fails {
				t.Fatalf("%s: %v\n%s", name, err, out)
			}
			if len(f.comments) != 131 {
				t.Fatalf("%s: %d comments", name, len(f.comments))
			}
			wantText(t, f.comments[130]["body"].(string), want...)
		}
		s.write("repository/tasks/tasks.hcl", changed)
		says(false, "### Terrapulse: 2 of 2 tasks planned, 1 with changes, 0 failed", "| web | no changes |", "| new (new) | 1 to add", "Changed: guard")
		s.write("repository/tasks/tasks.hcl", strings.Replace(s.task("new", onWeb), s.path("mod"), s.path("nowhere"), 1))
		says(true, "1 failed", "| new (new) | failed |")
		if !strings.Contains(f.seen[0], "hunter2") {
			t.Errorf("%s: requests are %v", name, f.seen)
		}
	}
}

// ciJob is a job of GitHub or GitLab: its scripts, each with its environment. The last one also runs after a failure.
type ciJob struct {
	shell   []string
	scripts []string
	env     []map[string]string
}

// run runs the scripts in the repository's folder. It returns the error of the first one that fails.
func (j ciJob) run(s *site) (out string, failed error) {
	for i, script := range j.scripts {
		if failed != nil && i < len(j.scripts)-1 {
			continue
		}
		cmd := exec.CommandContext(s.t.Context(), j.shell[0], append(j.shell[1:], script)...)
		cmd.Dir = s.path("repository")
		cmd.Env = []string{"PATH=" + s.path("bin") + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + s.dir}
		for name, value := range j.env[i] {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		text, err := cmd.CombinedOutput()
		out += string(text)
		if failed == nil {
			failed = err
		}
	}
	return out, failed
}

func readCI(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "examples/ci/daemon", name))
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// githubJob is the job of github.yml, with the values of its expressions.
func githubJob(t *testing.T, forge string, settings map[string]string) ciJob {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct {
				If, Shell, Run string
				Env            map[string]string
			}
		}
	}
	readCI(t, "github.yml", &workflow)
	values := map[string]string{
		"vars.TERRAPULSE_ADDRESS": settings["TERRAPULSE_ADDRESS"], "secrets.TERRAPULSE_TOKEN": settings["TERRAPULSE_TOKEN"],
		"github.token": "hunter2", "github.event.pull_request.number": "7",
	}
	expression := regexp.MustCompile(`\$\{\{ (\S+) \}\}`)
	job := ciJob{shell: []string{"bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"}}
	in := workflow.Jobs["inspect"]
	for i, step := range in.Steps {
		if step.Run == "" { // the checkout
			continue
		}
		if step.Shell != "bash" || (step.If == "always()") != (i == len(in.Steps)-1) {
			t.Errorf("step %d of github.yml has the shell %q and runs if %q", i, step.Shell, step.If)
		}
		env := map[string]string{"GITHUB_API_URL": forge, "GITHUB_REPOSITORY": "o/r"}
		for _, given := range []map[string]string{in.Env, step.Env} {
			for name, value := range given {
				env[name] = expression.ReplaceAllStringFunc(value, func(text string) string {
					is, known := values[expression.FindStringSubmatch(text)[1]]
					if !known {
						t.Errorf("github.yml: GitHub does not know %s", text)
					}
					return is
				})
			}
		}
		job.scripts, job.env = append(job.scripts, step.Run), append(job.env, env)
	}
	if len(job.scripts) != 2 {
		t.Fatalf("github.yml has the scripts %q", job.scripts)
	}
	return job
}

// gitlabJob is the job of gitlab.yml, with the variables of GitLab and of the project.
func gitlabJob(t *testing.T, forge string, settings map[string]string) ciJob {
	t.Helper()
	var file struct {
		Terrapulse struct {
			Variables   map[string]string
			Script      []string
			AfterScript []string `yaml:"after_script"`
		}
	}
	readCI(t, "gitlab.yml", &file)
	env := map[string]string{"GITLAB_CI": "true", "CI_API_V4_URL": forge, "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "7", "COMMENT_TOKEN": "hunter2"}
	for _, given := range []map[string]string{settings, file.Terrapulse.Variables} {
		for name, value := range given {
			env[name] = value
		}
	}
	scripts := []string{strings.Join(file.Terrapulse.Script, "\n"), strings.Join(file.Terrapulse.AfterScript, "\n")}
	if scripts[0] == "" || scripts[1] == "" {
		t.Fatalf("gitlab.yml has the scripts %q", scripts)
	}
	return ciJob{shell: []string{"bash", "-eo", "pipefail", "-c"}, scripts: scripts, env: []map[string]string{env, env}}
}
