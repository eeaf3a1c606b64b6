package terraformcli

import (
	"context"
	"errors"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func inS3(arguments map[string]cty.Value) Options {
	body := config.Body{Attributes: map[string]cty.Value{"bucket": cty.StringVal("states"), "key": cty.StringVal("net/state"), "region": cty.StringVal("eu-west-1"), "encrypt": cty.True}}
	for name, v := range arguments {
		body.Attributes[name] = v
	}
	return Options{Task: "web", Workspace: "web", Backend: config.Backend{Type: "s3", Body: body}}
}

func TestS3Object_IsWhereTerraformKeepsTheStateOfAWorkspace(t *testing.T) {
	got, ok := inS3(nil).s3Object()
	if want := (S3Object{Bucket: "states", Key: "env:/web/net/state", Region: "eu-west-1"}); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	got, ok = inS3(map[string]cty.Value{
		"workspace_key_prefix": cty.StringVal("tasks"), "use_path_style": cty.True, "access_key": cty.StringVal("a"), "secret_key": cty.StringVal("b"),
		"endpoints": cty.ObjectVal(map[string]cty.Value{"s3": cty.StringVal("https://s3.example")}), "profile": cty.NullVal(cty.String),
	}).s3Object()
	want := S3Object{Bucket: "states", Key: "tasks/web/net/state", Region: "eu-west-1", Endpoint: "https://s3.example", PathStyle: true, AccessKey: "a", SecretKey: "b"}
	if !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
}

func TestS3Object_TerraformReadsWhatItMayReachInAnotherWay(t *testing.T) {
	for name, arguments := range map[string]map[string]cty.Value{
		"a role":            {"role_arn": cty.StringVal("arn:aws:iam::1:role/states")},
		"a role in a block": {"assume_role": cty.ObjectVal(map[string]cty.Value{"role_arn": cty.StringVal("r")})},
		"a profile":         {"profile": cty.StringVal("prod")},
		"a key of its own":  {"sse_customer_key": cty.StringVal("k")},
		"another STS":       {"endpoints": cty.ObjectVal(map[string]cty.Value{"sts": cty.StringVal("https://sts.example")})},
		"half a credential": {"access_key": cty.StringVal("a")},
		"no key":            {"key": cty.NullVal(cty.String)},
	} {
		if got, ok := inS3(arguments).s3Object(); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	role := inS3(nil)
	role.Credentials = map[string]string{"AWS_ACCESS_KEY_ID": "of a role"}
	env := inS3(nil)
	env.Env = map[string]string{"AWS_PROFILE": "prod"}
	for name, o := range map[string]Options{"the role of the task": role, "task_env": env} {
		if got, ok := o.s3Object(); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCurrent_TerraformReadsAStateInS3OnlyIfNothingElseCan(t *testing.T) {
	bin := recorder(t, `echo '{"version": 4, "lineage": "terraform"}'`)
	var fails error
	o := inS3(nil)
	o.ReadS3 = func(_ context.Context, object S3Object) ([]byte, error) {
		return []byte(object.Key), fails
	}
	d, err := bin.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.current(t.Context()); err != nil || string(got) != "env:/web/net/state" {
		t.Errorf("%s, %v", got, err)
	}
	fails = errors.New("access denied")
	if got, err := d.current(t.Context()); err != nil || string(got) != `{"version": 4, "lineage": "terraform"}`+"\n" {
		t.Errorf("%q, %v", got, err)
	}
}
