//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

const ciFolder = "examples/ci/github"

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// The steps of the workflow plan and push, and the roles that the page creates allow exactly the
// requests that these steps send.
func TestCI_RolesAllowWhatTheWorkflowRequestsAndNoMore(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(c.s3Backend(), "lb", "dns")
	roles := c.ciRoles()

	plan := c.recorder("PlanRole", roles)
	c.sh(plan.step("plan", "Plan"), "### Task lb", "1 to add", "### Task dns", "Of 2 tasks, 2 will run")
	if c.out("lb") != "" || c.exists("terrapulse/current") {
		t.Error("a plan has put something into force")
	}
	push := c.recorder("PushRole", roles)
	c.sh(push.step("push", "Push"), "lb: run ")
	c.until("applied", func() bool { return c.out("lb") == "web-1:8080" && c.out("dns") == "web-1:8080" })
	c.file("module/main.tf", c.read("module/main.tf")+"# changed\n")
	c.sh(plan.step("plan", "Plan"), "lb    changed  yes   files of the module", "No changes")

	if had := c.rolesHad(); had != "PlanRole RunnerRole PlanRole" {
		t.Errorf("the containers of a pull request, its merge and another pull request have the roles %s", had)
	}

	for role, r := range map[string]*recorder{"PlanRole": plan, "PushRole": push} {
		for _, s := range roles[role] {
			for _, action := range s.Actions {
				if _, used := r.actions.Load(action); action != "s3:ListBucket" && !used { // S3 needs it to report a missing pointer
					t.Errorf("%s allows %s, which the workflow does not request", role, action)
				}
			}
		}
	}
	object := func(action, key string) rehearsal.Request {
		return rehearsal.Request{Action: action, Resource: "arn:aws:s3:::" + c.bucket + "/terrapulse/" + key}
	}
	pointer := object("s3:PutObject", "current")
	if roles["PlanRole"].Allows(t, pointer) || !roles["PushRole"].Allows(t, pointer) {
		t.Error("not the push alone may put a bundle into force")
	}
	function := rehearsal.Request{Action: "lambda:InvokeFunction", Resource: arn("lambda", "function:"+c.reconcile)}
	if roles["PlanRole"].Allows(t, function) || !roles["PushRole"].Allows(t, function) {
		t.Error("not the push alone may start a tick")
	}
	if roles["PlanRole"].Allows(t, object("s3:PutObject", "bundles/0123.zip")) {
		t.Error("a pull request may replace the bundle in force")
	}
	for _, role := range roles {
		if role.Allows(t, rehearsal.Records("dynamodb:GetItem", arn("dynamodb", "table/"+c.table), "token")) {
			t.Error("a role reads the tokens of the API")
		}
		if role.Allows(t, object("s3:GetObject", "state/lb")) {
			t.Error("a role reads Terraform's state")
		}
	}
}

// ciRoles runs the commands of the page with the AWS command line, and returns the roles that
// CloudFormation has created.
func (c *cloud) ciRoles() map[string]rehearsal.Policy {
	c.t.Helper()
	moto := testtools.StartMoto(c.t)
	here := testtools.Root(c.t)
	page, err := os.ReadFile(filepath.Join(here, ciFolder, "README.md"))
	if err != nil {
		c.t.Fatal(err)
	}
	block := shellBlock.FindSubmatch(page)
	if block == nil {
		c.t.Fatal("the page has no commands")
	}
	commands := strings.NewReplacer("OWNER/NAME", "example/network", "Stack=terrapulse", "Stack=e2e", "--stack-name terrapulse ", "--stack-name e2e ",
		// Moto cannot create identity providers.
		"--parameter-overrides", "--parameter-overrides OidcProviderArn=arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com").Replace(string(block[1]))
	env := map[string]string{"AWS_ENDPOINT_URL": moto, "AWS_ENDPOINT_URL_CLOUDFORMATION": c.cloudFormation(moto)}
	aws := func(command string) []byte {
		c.t.Helper()
		cmd := c.shell(command, env)
		cmd.Dir = filepath.Join(here, ciFolder)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			c.t.Fatalf("%s: %v\n%s%s", command, err, out, errs.Bytes())
		}
		return out
	}
	if out := aws(commands); !strings.Contains(string(out), "Successfully created/updated stack - terrapulse-ci") {
		c.t.Fatalf("%s", out)
	}
	roles := map[string]rehearsal.Policy{}
	for role, want := range map[string]string{"PlanRole": "repo:example/network:pull_request", "PushRole": "repo:example/network:ref:refs/heads/main"} {
		var trust struct {
			Statement []struct{ Condition map[string]map[string]string }
		}
		text := aws("aws iam list-roles --query \"Roles[?starts_with(RoleName, 'terrapulse-ci-" + role + "')].AssumeRolePolicyDocument | [0]\"")
		if err := json.Unmarshal(text, &trust); err != nil || len(trust.Statement) != 1 {
			c.t.Fatalf("the trust policy of %s: %v\n%s", role, err, text)
		}
		if got := trust.Statement[0].Condition["StringEquals"]; got["token.actions.githubusercontent.com:sub"] != want || got["token.actions.githubusercontent.com:aud"] != "sts.amazonaws.com" {
			c.t.Errorf("%s trusts %v", role, got)
		}
		policy := strings.ToLower(strings.TrimSuffix(role, "Role"))
		text = aws("aws iam get-role-policy --output text --query PolicyDocument --policy-name " + policy + " --role-name " +
			"$(aws iam list-roles --output text --query \"Roles[?starts_with(RoleName, 'terrapulse-ci-" + role + "')].RoleName\")")
		roles[role] = motoPolicy(c.t, text)
	}
	return roles
}

// motoPolicy parses a policy, which moto keeps as Python prints it.
func motoPolicy(t testing.TB, text []byte) (policy rehearsal.Policy) {
	t.Helper()
	var document struct{ Statement []*rehearsal.Statement }
	text = []byte(strings.NewReplacer("'", `"`, "None", "null").Replace(string(text)))
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, s := range document.Statement {
		if s != nil { // AWS drops what is no value
			policy = append(policy, *s)
		}
	}
	return policy
}

// cloudFormation returns the address of a CloudFormation that has this deployment's stack, and all
// others in another CloudFormation.
func (c *cloud) cloudFormation(others string) string {
	here, there := proxyTo(c.t, c.env["AWS_ENDPOINT_URL_CLOUDFORMATION"]), proxyTo(c.t, others)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if formOf(r).Get("StackName") == c.name {
			here.ServeHTTP(w, r)
			return
		}
		there.ServeHTTP(w, r)
	}))
	c.t.Cleanup(server.Close)
	return server.URL
}

// recorder records what a program that has a role requests from AWS.
type recorder struct {
	c       *cloud
	env     map[string]string
	actions sync.Map // that were requested
}

func (c *cloud) recorder(role string, roles map[string]rehearsal.Policy) *recorder {
	r := &recorder{c: c, env: map[string]string{"STACK": "e2e", "TASKS": "."}}
	limits := organisation(c.t, c.name)
	limits.Boundary = nil // which is for the roles of the stack
	allows := c.judge(role, roles[role], limits)
	for service := range rights {
		address := "AWS_ENDPOINT_URL_" + service
		r.env[address] = guarded(c.t, service, strings.NewReplacer(), c.env[address], func(request rehearsal.Request) bool {
			r.actions.Store(request.Action, true)
			return allows(request)
		})
	}
	return r
}

// step is a step of the workflow, as GitHub runs it.
func (r *recorder) step(job, name string) *exec.Cmd {
	r.c.t.Helper()
	text, err := os.ReadFile(filepath.Join(testtools.Root(r.c.t), ciFolder, "terrapulse.yml"))
	if err != nil {
		r.c.t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		r.c.t.Fatal(err)
	}
	for _, s := range workflow.Jobs[job].Steps {
		if s.Name == name {
			return r.c.shell(s.Run, r.env)
		}
	}
	r.c.t.Fatalf("job %s has no step %s", job, name)
	return nil
}

// shell is a script, as GitHub's workflows run it, in the folder of the task files.
func (c *cloud) shell(script string, env map[string]string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Dir = filepath.Join(c.dir, "files")
	path := strings.Join([]string{filepath.Dir(built(c.t, "terrapulse")), filepath.Dir(testtools.AWS(c.t)), os.Getenv("PATH")}, ":")
	cmd.Env = []string{"HOME=" + c.dir, "PATH=" + path, "AWS_DEFAULT_REGION=" + ecstest.Region, "TF_CLI_CONFIG_FILE=" + testtools.TerraformRC(c.t)}
	for _, variables := range []map[string]string{c.env, env} {
		for name, value := range variables {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// sh runs a script, which must print all of this.
func (c *cloud) sh(cmd *exec.Cmd, wants ...string) string {
	c.t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range wants {
		if !strings.Contains(string(out), want) {
			c.t.Errorf("it prints no %q:\n%s", want, out)
		}
	}
	return string(out)
}
