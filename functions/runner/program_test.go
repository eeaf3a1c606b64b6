package main

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/hashicorp/consul/api"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/runlog"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// TestMain runs the test binary as the program if the environment says so, or if git runs it as its
// SSH client.
func TestMain(m *testing.M) {
	if os.Getenv("TERRAPULSE_TEST_AS_PROGRAM") != "" || len(os.Args) > 1 && os.Args[1] == sshCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

// stack is the environment of the program: a table, a bucket and a Consul, with a bundle in force.
type stack struct {
	t      testing.TB
	dir    string // of the task files
	env    map[string]string
	store  *dynamo.Store
	s3     *s3mem.Backend
	client *s3.Client
	consul *consultest.Server
	bundle string // the digest
	cfg    *config.Config
}

// newStack pushes a bundle of tasks on the service web with the given module texts. In the backend,
// S3 stands for the address of the S3 server.
func newStack(t testing.TB, backend string, modules ...string) *stack {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a database, a Consul and the program")
	}
	table := dynamotest.Start(t)
	s := &stack{t: t, dir: t.TempDir(), s3: s3mem.New(), consul: consultest.Start(t)}
	for _, bucket := range []string{"terrapulse", "states"} {
		if err := s.s3.CreateBucket(bucket); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(gofakes3.New(s.s3, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	s.client = s3.New(s3.Options{Region: dynamotest.Region, BaseEndpoint: &server.URL, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	name := dynamotest.Table(t, table)
	s.store = dynamo.New(dynamotest.Config(table), name)
	s.env = map[string]string{
		"AWS_REGION": dynamotest.Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_ENDPOINT_URL_DYNAMODB": table, "AWS_ENDPOINT_URL_S3": server.URL,
		"TERRAPULSE_STACK": "test", "TERRAPULSE_TABLE": name,
		"TERRAPULSE_BUNDLE": "s3://terrapulse/bundle", "TERRAPULSE_LOGS": "s3://terrapulse/logs",
		"CONSUL_HTTP_ADDR": s.consul.Addr(), "TF_CLI_CONFIG_FILE": testtools.TerraformRC(t),
		"PATH": filepath.Dir(testtools.Terraform(t)),
	}
	err := s.consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", Port: 8080})
	if err != nil {
		t.Fatal(err)
	}
	text := "driver \"terraform\" {\n" + strings.ReplaceAll(backend, "S3", server.URL) + "\n}\n"
	for i, module := range modules {
		text += fmt.Sprintf("task {\n  name = \"t%d\"\n  module = \"./m%d\"\n  condition \"services\" {\n    names = [\"web\"]\n  }\n}\n", i, i)
		s.write(fmt.Sprintf("m%d/main.tf", i), "variable \"services\" {}\n"+module)
	}
	s.write("tasks.hcl", text)
	s.push()
	return s
}

func (s *stack) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// push writes a bundle of the task files into the bucket.
func (s *stack) push() {
	s.t.Helper()
	getenv := func(name string) string { return s.env[name] }
	cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: "tasks.hcl"}}, Dir: s.dir, Getenv: getenv})
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := bundle.Pack(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.bundle = b.Digest
	bucket := bundle.Bucket{Client: s.client, Location: s3url.URL{Bucket: "terrapulse", Prefix: "bundle"}}
	if _, _, err := bucket.Push(s.t.Context(), b, "test", time.Now()); err != nil {
		s.t.Fatal(err)
	}
	// The function reads it in another folder.
	if s.cfg, err = bundle.Load(b.Zip, s.t.TempDir(), config.Options{Getenv: getenv}); err != nil {
		s.t.Fatal(err)
	}
}

// s3Backend returns a backend in a bucket of an S3 server, with lock files.
func s3Backend(url string) string {
	return fmt.Sprintf(`backend "s3" {
  bucket         = "states"
  key            = "state"
  region         = "eu-central-1"
  use_lockfile   = true
  access_key     = "a"
  secret_key     = "b"
  use_path_style = true
  endpoints      = { s3 = %q }

  skip_credentials_validation = true
  skip_requesting_account_id  = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
}`, url)
}

// launch writes a launch of every task, as a leader does.
func (s *stack) launch(id string) {
	s.t.Helper()
	now := time.Now()
	launch := state.Launch{ID: id, Kind: state.KindApply, Config: s.cfg.Digest(), Bundle: s.bundle, Fence: 1, Created: now}
	var changes []state.Change
	for i := range s.cfg.Tasks {
		name := s.cfg.Tasks[i].Name
		was, err := state.Read[state.Task](s.t.Context(), s.store, state.TaskKey(name))
		if err != nil {
			s.t.Fatal(err)
		}
		run := state.Run{ID: id + "-" + name, Task: name, Kind: state.KindApply, Launch: id, Fence: 1, State: state.RunIntended, Created: now}
		launch.Runs = append(launch.Runs, state.PlannedRun{ID: run.ID, Task: name, Definition: s.cfg.Tasks[i].Digest(s.cfg)})
		task := was.Data
		task.Run = &state.LiveRun{ID: run.ID, Launch: id, Created: now}
		changes = append(changes, was.Write(task), state.Create(state.RunKey(name, run.ID), state.Encode(run)))
	}
	changes = append(changes, state.Create(state.LaunchKey(id), state.Encode(launch)))
	if _, err := s.store.Apply(s.t.Context(), changes...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stack) run(launch, task string) state.Run {
	s.t.Helper()
	run, err := state.Read[state.Run](context.WithoutCancel(s.t.Context()), s.store, state.RunKey(task, launch+"-"+task))
	if err != nil {
		s.t.Fatal(err)
	}
	return run.Data
}

// container returns the program's process, with a separate work volume. Changes of the environment
// come last; an empty value removes a variable.
func (s *stack) container(launch string, out *testtools.Output, changes ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(s.environ(launch, changes...), "TERRAPULSE_TEST_AS_PROGRAM=1", "TERRAPULSE_WORK="+filepath.Join(s.t.TempDir(), "work"))
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

func (s *stack) environ(launch string, changes ...string) []string {
	env := map[string]string{"TERRAPULSE_LAUNCH": launch}
	for name, value := range s.env {
		env[name] = value
	}
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		env[name] = value
	}
	var list []string
	for name, value := range env {
		if value != "" {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// lock returns the lock file of a task's state in S3; "" if there is none.
func (s *stack) lock(task string) string {
	object, err := s.s3.GetObject("states", "env:/"+task+"/state.tflock", nil)
	if err != nil {
		return ""
	}
	defer object.Contents.Close()
	text, err := io.ReadAll(object.Contents)
	if err != nil {
		s.t.Error(err)
	}
	return string(text)
}

func (s *stack) locked(task string) bool { return s.lock(task) != "" }

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestProgram_ExecutesItsLaunch(t *testing.T) {
	s := newStack(t, s3Backend("S3"), data, data, broken)
	s.launch("l1")
	var out testtools.Output
	if err := s.container("l1", &out).Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for task, want := range map[string]state.RunState{"t0": state.RunSucceeded, "t1": state.RunSucceeded, "t2": state.RunFailed} {
		run := s.run("l1", task)
		if run.State != want || run.Logs == 0 || run.Output.URL != "s3://terrapulse/logs/"+task+"/l1-"+task+".log.gz" {
			t.Errorf("%s: %+v", task, run)
		}
		text, err := runlog.Load(t.Context(), s.client, run.Output.URL)
		if err != nil || len(text) != run.Logs || !strings.Contains(string(text), "Apply complete!") == (want == state.RunSucceeded) {
			t.Errorf("the output of %s is %q, %v", task, text, err)
		}
	}
	for _, want := range []string{`"CloudWatchMetrics"`, `"RunsSucceeded":1`, `"Stack":"test"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &out)
		}
	}
}

// data needs no provider.
const data = "resource \"terraform_data\" \"out\" {\n  input = var.services\n}\n"

// sleeps creates a resource that takes 300 s.
const sleeps = "resource \"time_sleep\" \"out\" {\n  create_duration = \"300s\"\n}\n"

func TestProgram_StopInterruptsTerraform(t *testing.T) {
	s := newStack(t, s3Backend("S3"), sleeps)
	s.launch("l1")
	var out testtools.Output
	cmd := s.container("l1", &out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	eventually(t, "the state is locked", func() bool { return s.locked("t0") })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if run := s.run("l1", "t0"); run.State != state.RunInterrupted || !strings.Contains(run.Error, "interrupted: ECS stopped the container") || s.locked("t0") {
		t.Errorf("the run reads %+v, the state is locked: %v", run, s.locked("t0"))
	}
	if took := time.Since(began); took > 100*time.Second {
		t.Errorf("it took %s, and ECS kills after 120 s", took)
	}
}

func TestProgram_ReportsFailuresOnceAndOnItsRuns(t *testing.T) {
	s := newStack(t, `backend "local" {}`, data)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		name   string
		change string
		log    string
		run    string // the error of its run; "" if it cannot be recorded
	}{
		{"no launch", "TERRAPULSE_LAUNCH=", "environment variable TERRAPULSE_LAUNCH is not set", ""},
		{"an unknown launch", "TERRAPULSE_LAUNCH=l9", "the table has no launch l9", ""},
		{"a table that is not there", "TERRAPULSE_TABLE=other", "read launch", ""},
		{"no work volume", "TERRAPULSE_WORK=" + file, "the work volume cannot be written", ""},
		{"a bundle that is not there", "TERRAPULSE_BUNDLE=s3://terrapulse/other", "read bundle", "read bundle"},
		{"a bucket that is not there", "TERRAPULSE_BUNDLE=s3://nowhere", "read bundle", "read bundle"},
		{"no Terraform", "PATH=" + t.TempDir(), "the runner's image cannot be used", "the runner's image cannot be used"},
		{"no secret", "TERRAPULSE_SECRET=hunter2", "the first secret in the parameter SecretArns: it is not a JSON object", ""},
		{"no certificate", `TERRAPULSE_SECRET={"consul_ca_cert":"nonsense"} CONSUL_HTTP_SSL=true`, "set up the connection to Consul", "set up the connection to Consul"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			launch := fmt.Sprintf("l%d0", i)
			s.launch(launch)
			var out testtools.Output
			cmd := s.container(launch, &out)
			cmd.Env = append(cmd.Env, strings.Fields(tt.change)...)
			if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("it ends with %v", err)
			}
			said := 0
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, "the container cannot execute its launch") && strings.Contains(line, tt.log) {
					said++
				}
			}
			if said != 1 {
				t.Errorf("it is said %d times:\n%s", said, &out)
			}
			run := s.run(launch, "t0")
			if tt.run == "" && run.State != state.RunIntended || tt.run != "" && (run.State != state.RunFailed || !strings.Contains(run.Error, tt.run)) {
				t.Errorf("the run reads %+v", run)
			}
		})
	}
}
