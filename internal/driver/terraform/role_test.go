package terraform_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/internal/aws/awsrole"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

var accessKey = regexp.MustCompile(`Credential=(\w+)/`)

// Terraform's S3 backend finds its credentials as the AWS provider does. Its requests show whose
// they are.
func TestTerraform_WorksWithTheRoleOfItsTaskAlone(t *testing.T) {
	t.Setenv("TF_CLI_CONFIG_FILE", testtools.TerraformRC(t))
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "OWN", "AWS_SECRET_ACCESS_KEY": "own", "AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") == "AssumeRole" {
			fmt.Fprintf(w, `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
				time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
			return
		}
		fmt.Fprint(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/a</Arn><UserId>a</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
	}))
	t.Cleanup(sts.Close)
	backend := s3mem.New()
	if err := backend.CreateBucket("states"); err != nil {
		t.Fatal(err)
	}
	files := gofakes3.New(backend).Server()
	var mu sync.Mutex
	keys := map[string][]string{} // of requests about a task's state
	s3 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := accessKey.FindStringSubmatch(r.Header.Get("Authorization")); key != nil {
			for _, task := range []string{"with", "without"} {
				if strings.Contains(r.URL.Path, "/"+task+"/") {
					mu.Lock()
					keys[task] = append(keys[task], key[1])
					mu.Unlock()
				}
			}
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(s3.Close)

	program := testtools.Terraform(t)
	version, err := terraformcli.Version(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	var mine aws.Config
	mine.Region, mine.BaseEndpoint, mine.Credentials = "eu-west-1", &sts.URL, credentials.NewStaticCredentialsProvider("OWN", "own", "")
	ended, kinds := 0, []state.Kind(nil)
	d := tfdriver.New(tfdriver.Options{Terraform: &terraformcli.Binary{Path: program, Version: version},
		Assume: func(ctx context.Context, kind state.Kind, role, task string) (map[string]string, func(), error) {
			kinds = append(kinds, kind)
			env, end, err := awsrole.Assume(ctx, mine, role, task)
			return env, func() { end(); ended++ }, err
		}})
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "module"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "module", "main.tf"), []byte(`variable "services" {}`+"\n"+`resource "terraform_data" "a" {}`), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := configtest.Load(t, dir, "tasks.hcl", fmt.Sprintf(`
working_dir = %q
driver "terraform" {
  backend "s3" {
    bucket = "states"
    key = "state"
    region = "eu-west-1"
    workspace_key_prefix = "states"
    endpoints = { s3 = %q, sts = %q }
    use_path_style = true
  }
}
task {
  name = "with"
  module = "./module"
  aws_role = "arn:aws:iam::123456789012:role/load-balancer"
  condition "services" { names = ["web"] }
}
task {
  name = "without"
  module = "./module"
  condition "services" { names = ["web"] }
}
`, dir, s3.URL, sts.URL))
	for i := range cfg.Tasks {
		var out testtools.Output
		job := driver.Job{Config: cfg, Task: &cfg.Tasks[i], Output: &out, Notes: notes{func() {}, func() {}}, Run: state.Run{Kind: state.KindApply}, Snapshot: &consul.Snapshot{Blocks: []consul.Block{{Variable: "services"}}}}
		if _, err := d.Apply(t.Context(), job); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
	}
	if _, err := d.Plan(t.Context(), driver.Job{Config: cfg, Task: &cfg.Tasks[0], Output: new(testtools.Output), Run: state.Run{Kind: state.KindPlan},
		Snapshot: &consul.Snapshot{Blocks: []consul.Block{{Variable: "services"}}}}); err != nil {
		t.Error(err)
	}
	for task, want := range map[string]string{"with": "ROLE", "without": "OWN"} {
		if all := slices.Compact(slices.Sorted(slices.Values(keys[task]))); !slices.Equal(all, []string{want}) {
			t.Errorf("the state of task %s is read and written with the credentials %v", task, all)
		}
	}
	if ended != 2 {
		t.Errorf("%d sessions have ended", ended)
	}
	if !slices.Equal(kinds, []state.Kind{state.KindApply, state.KindPlan}) { // a container has another role for a plan
		t.Errorf("roles were assumed for runs of the kinds %v", kinds)
	}
}
