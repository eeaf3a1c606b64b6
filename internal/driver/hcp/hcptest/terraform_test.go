package hcptest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// commandLine is Terraform's command line with a cloud block.
type commandLine struct {
	t   *testing.T
	hcp *hcptest.Server
	dir string
}

func newCommandLine(t *testing.T, workspace string, options ...hcptest.Option) *commandLine {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if os.Getenv("TERRAPULSE_TEST_ENGINE") == "tofu" {
		t.Skip("OpenTofu prints other words")
	}
	c := &commandLine{t, hcptest.New(t, options...), t.TempDir()}
	c.write("cloud.tf", fmt.Sprintf(`terraform {
  cloud {
    hostname     = %q
    organization = "acme"
    token        = "the-token"
    workspaces {
      name = %q
    }
  }
}
`, strings.TrimPrefix(c.hcp.SecureURL, "https://"), workspace))
	for name, text := range files("one") {
		c.write(name, text)
	}
	return c
}

func (c *commandLine) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// command is Terraform with an answer to its question.
func (c *commandLine) command(answer string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), testtools.Terraform(c.t), args...)
	cmd.Dir, cmd.Stdin = c.dir, strings.NewReader(answer+"\n")
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+c.hcp.CA, "TF_CLI_CONFIG_FILE="+testtools.TerraformRC(c.t), "CHECKPOINT_DISABLE=1", "NO_COLOR=1")
	return cmd
}

// run runs Terraform to its end.
func (c *commandLine) run(answer string, args ...string) (string, error) {
	out, err := c.command(answer, args...).CombinedOutput()
	return string(out), err
}

// prints runs Terraform and expects words in its output.
func (c *commandLine) prints(words []string, args ...string) {
	c.t.Helper()
	out, err := c.run("", append(args, "-no-color")...)
	if err != nil {
		c.t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			c.t.Errorf("terraform %s does not print %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
}

func (c *commandLine) statuses() (all []string) {
	for _, r := range c.hcp.Workspace("cli").Runs {
		all = append(all, r.Status)
	}
	return all
}

func TestTerraformCLI_PlansAppliesAndDiscards(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t, "cli")
	c.prints([]string{"HCP Terraform has been successfully initialized"}, "init")
	c.prints([]string{"Running plan in HCP Terraform", "/app/acme/cli/runs/", "terraform_data.kept will be created", "1 to add"}, "plan")
	c.prints([]string{"terraform_data.kept: Creating...", "Apply complete! Resources: 1 added"}, "apply", "-auto-approve")
	c.write("terrapulse.auto.tfvars", "value = \"two\"\n")
	out, err := c.run("no", "apply", "-no-color")
	if err == nil || !strings.Contains(out, "1 to change") || !strings.Contains(out, "Apply discarded") {
		t.Errorf("apply, and no: %v\n%s", err, out)
	}
	c.prints([]string{`one`}, "output", "kept")
	c.prints([]string{"Apply complete! Resources: 0 added, 0 changed, 1 destroyed"}, "destroy", "-auto-approve")
	if got := c.statuses(); !slices.Equal(got, []string{"planned_and_finished", "applied", "discarded", "applied"}) {
		t.Errorf("the runs are %q", got)
	}
}

func TestTerraformCLI_UnderstandsChecks(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t, "cli")
	c.hcp.Check(hcptest.Checks{Cost: true, PostPlan: "passed"})
	c.prints(nil, "init")
	c.prints([]string{"Cost Estimation", "Apply complete!"}, "apply", "-auto-approve")
}

func TestTerraformCLI_ReportsAFailedPlan(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t, "cli")
	c.prints(nil, "init")
	c.write("broken.tf", "resource \"terraform_data\" \"broken\" {\n  lifecycle {\n    precondition {\n      condition = var.value == \"\"\n      error_message = \"never\"\n    }\n  }\n}\n")
	out, err := c.run("", "plan", "-no-color")
	if err == nil || !strings.Contains(out, "never") {
		t.Errorf("plan: %v\n%s", err, out)
	}
	if got := c.statuses(); !slices.Equal(got, []string{"errored"}) {
		t.Errorf("the runs are %q", got)
	}
}

// background is a Terraform that runs while the test does something.
type background struct {
	*exec.Cmd
	t   *testing.T
	out testtools.Output
}

func (c *commandLine) start(args ...string) *background {
	c.t.Helper()
	b := &background{Cmd: c.command("", append(args, "-no-color")...), t: c.t}
	b.Stdout, b.Stderr = &b.out, &b.out
	if err := testtools.StartWithTest(b.Cmd); err != nil {
		c.t.Fatal(err)
	}
	return b
}

// says waits for words in the output.
func (b *background) says(words string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(b.out.String(), words); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("Terraform does not print %q:\n%s", words, b.out.String())
		}
	}
}

func (b *background) succeeds() {
	b.t.Helper()
	if err := b.Wait(); err != nil {
		b.t.Errorf("%s: %v\n%s", b, err, b.out.String())
	}
}

func TestTerraformCLI_WaitsForOthers(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t, "cli")
	c.prints(nil, "init")
	c.hcp.Upload("cli")
	theirs := c.hcp.Start("cli", "jane")
	c.hcp.Await(theirs, "planned")
	apply := c.start("apply", "-auto-approve")
	apply.says("Waiting for 1 run(s) to finish before being queued")
	c.hcp.Discard(theirs, "jane", "")
	apply.succeeds()

	c.hcp.Lock("cli", "joe")
	c.write("terrapulse.auto.tfvars", "value = \"two\"\n")
	apply = c.start("apply", "-auto-approve")
	apply.says("Waiting for the manually locked workspace to be unlocked")
	c.hcp.Unlock("cli")
	apply.succeeds()
	if got := c.statuses(); !slices.Equal(got, []string{"discarded", "applied", "applied"}) {
		t.Errorf("the runs are %q", got)
	}
}
