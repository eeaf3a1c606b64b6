//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// container runs the container's program as a process, in a folder of its own.
func (c *cloud) container(ctx context.Context, container ecstest.Container) int {
	if c.image != "" {
		return c.fromImage(ctx, container)
	}
	if container.Name == ecstask.InstallContainer {
		return 0 // the process is built by the test
	}
	c.mu.Lock()
	c.had = append(c.had, c.roleOf(container.Role))
	c.mu.Unlock()
	// Providers listen on a socket below TMPDIR, whose path must be short.
	work, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		c.t.Error(err)
		return 1
	}
	defer os.RemoveAll(work)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.started++
	}()
	select {
	case <-time.After(c.delay):
	case <-container.Terminated.Done():
		return 143
	}
	env := []string{"TERRAPULSE_WORK=" + work, "TF_CLI_CONFIG_FILE=" + testtools.TerraformRC(c.t), "PATH=" + filepath.Dir(testtools.Terraform(c.t)) + ":/usr/bin:/bin"}
	for name, value := range c.as(c.roleOf(container.Role)) {
		env = append(env, name+"="+value)
	}
	return ecstest.Process{Path: built(c.t, "runner"), Dir: work, Output: &c.output, Env: env}.Run(ctx, container)
}

// fromImage runs a container of an image as the task definition says: its root cannot be written,
// and its user has no name. The volume of a stock image belongs to root, as Fargate makes it where
// an image does not say whose it is.
func (c *cloud) fromImage(ctx context.Context, container ecstest.Container) int {
	out := filepath.Join(c.dir, "out") // what Terraform makes is made there
	args := []string{"run", "--rm", "--read-only", "--read-only-tmpfs=false", "--passwd=false", "--cap-drop", "all", "--network", "host",
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--volume", out + ":" + out}
	var command []string
	if c.stock {
		d := c.definitions[container.Name]
		volume := "terrapulse-" + container.Task
		_ = rehearsal.Podman(ctx, "volume", "create", "--ignore", volume).Run() // without it, the run fails
		c.mu.Lock()
		c.volumes = append(c.volumes, volume)
		c.mu.Unlock()
		entrypoint, err := json.Marshal(d.EntryPoint)
		if err != nil {
			c.t.Error(err)
		}
		args = append(args, "--volume", volume+":/work:nocopy", "--user", *d.User, "--entrypoint", string(entrypoint),
			"--volume", c.mirror()+":/usr/local/share/terraform/plugins:ro") // no registry can be reached
		command = d.Command
	}
	env := container.Env
	for name, value := range c.as(c.roleOf(container.Role)) {
		env = append(env, name+"="+value)
	}
	for _, v := range env {
		args = append(args, "--env", v)
	}
	cmd := rehearsal.Podman(ctx, append(append(args, c.image), command...)...)
	cmd.Stdout, cmd.Stderr = &c.output, &c.output
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
			return exit.ExitCode()
		}
		io.WriteString(&c.output, err.Error()+"\n")
		return 1
	}
	return 0
}

// removeVolumes removes the volumes of the containers, which must have ended: podman blocks itself
// if it runs a container and removes its volume at the same time.
func (c *cloud) removeVolumes() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, volume := range c.volumes {
		_ = rehearsal.Podman(ctx, "volume", "rm", "--force", volume).Run()
	}
}

// mirror returns a folder with the providers themselves: those of the tools are links to a cache.
func (c *cloud) mirror() string {
	folder := filepath.Join(c.dir, "mirror")
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	if out, err := exec.Command("cp", "-RL", filepath.Join(testtools.Root(c.t), ".tools", "mirror"), folder).CombinedOutput(); err != nil {
		c.t.Errorf("%v\n%s", err, out)
	}
	return folder
}

// installed invokes the function that installs the program, as CloudFormation does, and returns what
// the stack's placeholders stand for.
func (c *cloud) installed(stack *rehearsal.Stack) []string {
	c.t.Helper()
	answers := make(chan cfn.Response, 1)
	cloudFormation := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer cfn.Response
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
			c.t.Error(err)
		}
		answers <- answer
	}))
	defer cloudFormation.Close()
	f := stack.Functions["InstallFunction"]
	env := maps.Clone(c.env)
	maps.Copy(env, f.Environment)
	c.lambda.deploy(f.Name, stack.Bootstrap("InstallFunction"), time.Duration(f.Timeout)*time.Second, env)
	request, err := json.Marshal(cfn.Event{
		RequestType: cfn.RequestCreate, RequestID: "1", ResponseURL: cloudFormation.URL, ResourceType: "Custom::Program", LogicalResourceID: "Program",
		ResourceProperties: map[string]any{"Location": c.bundles + "/programs/" + stackName, "Architecture": rehearsal.Here()},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.lambda.invoke(c.t.Context(), f.Name, request); err != nil {
		c.t.Fatal(err)
	}
	answer := <-answers
	address, _ := answer.Data["Url"].(string)
	sum, _ := answer.Data["Sha256"].(string)
	if answer.Status != cfn.StatusSuccess || address == "" || sum == "" {
		c.t.Fatalf("the program cannot be installed: %+v", answer)
	}
	return []string{rehearsal.ProgramURL, address, rehearsal.ProgramSHA256, sum}
}

// ofPodman is held by the test whose containers podman runs: it would wait for itself if two tests
// used it at once.
var ofPodman sync.Mutex

func TestTheImageAppliesAChange(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the runner's image")
	}
	ofPodman.Lock()
	t.Cleanup(ofPodman.Unlock)
	c := deploy(t, options{image: rehearsal.Image(t, "runner"), parameters: rehearsal.Parameters{"RunnerImage": "terrapulse:1"}})
	c.appliesInContainers()
}

// Without any image of Terrapulse, the containers load the program that the stack has put into its
// bucket.
func TestAnImageWithoutTheRunnerAppliesAChange(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes an image")
	}
	ofPodman.Lock()
	t.Cleanup(ofPodman.Unlock)
	c := deploy(t, options{image: rehearsal.StockImage(t), stock: true})
	c.appliesInContainers()

	// A program that was replaced in the bucket is not started.
	program, _ := strings.CutPrefix(c.lambda.functions[c.reconcile].env["TERRAPULSE_PROGRAM"], "s3://"+c.bucket+"/")
	if _, err := c.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &c.bucket, Key: &program, Body: strings.NewReader("another program")}); err != nil {
		t.Fatal(err)
	}
	c.register("web-3", 8082)
	c.tickUntil("a container refuses the program", func() bool { return strings.Contains(c.output.String(), "its SHA-256 is not") })
	c.tickUntil("its run is lost", func() bool {
		runs := c.runs("lb")
		last := runs[len(runs)-1]
		return last.State == state.RunLost && strings.Contains(last.Error, "could not load the program")
	})
	if out := c.out("lb"); strings.Contains(out, "web-3") {
		t.Errorf("another program was started: %s", out)
	}
}

// appliesInContainers tests that a change is applied.
func (c *cloud) appliesInContainers() {
	c.t.Helper()
	if err := os.Chmod(filepath.Join(c.dir, "out"), 0o777); err != nil {
		c.t.Fatal(err)
	}
	c.register("web-1", 8080)
	c.module("")
	c.tasks(c.s3Backend(), "lb", "dns")
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("lb") == "web-1:8080" && c.out("dns") == "web-1:8080" })
	c.register("web-2", 8081)
	c.tickUntil("the change is applied", func() bool { return strings.Contains(c.out("lb"), "web-2:8081") })
	for _, r := range c.runs("lb") {
		if r.State != state.RunSucceeded {
			c.t.Errorf("%+v", r)
		}
	}
}
