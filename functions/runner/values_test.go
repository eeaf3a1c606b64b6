package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

func TestProgram_ProvidersGetSecretsOfAWS(t *testing.T) {
	// The parts of Secrets Manager and SSM that the SDK needs.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "GetParameter") {
			fmt.Fprint(w, `{"Parameter": {"Value": "hunter2-parameter"}}`)
		} else {
			fmt.Fprint(w, `{"SecretString": "{\"token\": \"hunter2-token\"}"}`)
		}
	}))
	defer server.Close()
	c := newContainer(t, `
resource "terraform_data" "x" {
  provisioner "local-exec" { command = "printf %s $API_TOKEN | sha256sum > ../../seen; echo said $API_TOKEN" }
}`)
	c.write("tasks.hcl", strings.Replace(c.read("tasks.hcl"), `  module = "./m0"`, `  module = "./m0"
  providers = ["local"]`, 1)+`
terraform_provider "local" {
  task_env {
    API_TOKEN = "{{ secretsmanager \"arn:aws:secretsmanager:eu-central-1:123456789012:secret:x-AbCdEf\" \"token\" }}/{{ ssm \"/prod/x\" }}"
  }
}
`)
	c.cfg, c.store = loadTasks(t, c.dir), &statetest.Faulty{Store: openStore(t, t.TempDir())}
	c.worker = newTestWorker(c.store, c.cfg, c.out)
	terraform := testDriver(c.store, c.worker.log)
	terraform.aws = secrets.New(aws.Config{Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("k", "s", "")})
	c.worker.driver = terraform.prepare
	c.decide("l2", state.KindApply)
	if err := c.work(context.Background(), c.launch.ID); err != nil {
		t.Fatal(err)
	}
	if run := c.run("t0"); run.State != state.RunSucceeded {
		t.Fatalf("the run reads %+v", run)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte("hunter2-token/hunter2-parameter"))); !strings.HasPrefix(c.read("seen"), want) {
		t.Errorf("Terraform saw another value: %q", c.read("seen"))
	}
	output, err := state.LoadLog(t.Context(), c.store, "t0", c.launch.Runs[0].ID)
	if err != nil || !strings.Contains(string(output), "said (redacted)") || strings.Contains(string(output)+c.out.String(), "hunter2") {
		t.Errorf("the output is %s (%v); the log is %s", output, err, c.out)
	}
}

func TestProgram_SecretsThatTerraformInheritsAreInNoOutput(t *testing.T) {
	says := `
resource "terraform_data" "x" {
  provisioner "local-exec" {
    command = "echo said $TF_TOKEN_example_com $AWS_SESSION_TOKEN $OF_T1 $HTTPS_PROXY $(cat \"$HOME/git/credentials\"); exit CODE"
  }
}`
	for name, value := range map[string]string{"TF_TOKEN_example_com": "hunter2-registry", "AWS_SESSION_TOKEN": "hunter2-session", "OF_T1": "hunter2-of-t1",
		"HTTPS_PROXY": "http://user:hunter2-proxy@192.0.2.1"} {
		t.Setenv(name, value)
	}
	c := newContainer(t, strings.Replace(says, "CODE", "0", 1), strings.Replace(says, "CODE", "7", 1))
	c.write("tasks.hcl", strings.Replace(c.read("tasks.hcl"), `  module = "./m1"`, `  module = "./m1"
  variables = { note = "{{ env \"OF_T1\" }}" }`, 1))
	c.write("m1/note.tf", `variable "note" {}`)
	settings := settings.Runner{Work: t.TempDir(), Secret: secrets.Stack{GitCredentials: "https://user:hunter2%21git@example.com"}}
	t.Setenv("HOME", settings.Work)
	if err := prepareModules(settings); err != nil {
		t.Fatal(err)
	}
	c.cfg, c.store = loadTasks(t, c.dir), &statetest.Faulty{Store: openStore(t, t.TempDir())}
	c.worker = newTestWorker(c.store, c.cfg, c.out)
	terraform := testDriver(c.store, c.worker.log)
	terraform.hidden = inFiles(settings)
	c.worker.driver = terraform.prepare
	c.decide("l2", state.KindApply)
	if err := c.work(context.Background(), c.launch.ID); err != nil {
		t.Fatal(err)
	}
	for task, want := range map[string]state.RunState{"t0": state.RunSucceeded, "t1": state.RunFailed} {
		run := c.run(task)
		output, err := state.LoadLog(t.Context(), c.store, task, run.ID)
		if run.State != want || err != nil {
			t.Fatalf("the run of %s reads %+v, %v", task, run, err)
		}
		const redacted = "said (redacted) (redacted) (redacted) http://user:(redacted)@192.0.2.1 (redacted)"
		if !strings.Contains(string(output), redacted) {
			t.Errorf("the output of %s lacks %q:\n%s", task, redacted, output)
		}
		if strings.Contains(string(output)+run.Error+c.out.String(), "hunter2") {
			t.Errorf("a secret of %s is shown: %s\n%s\n%s", task, run.Error, output, c.out)
		}
	}
}
