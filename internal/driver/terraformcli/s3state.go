package terraformcli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// S3Object is where the backend s3 keeps a state, and how it is reached.
type S3Object struct {
	Bucket, Key, Region  string
	Endpoint             string // "" for that of AWS
	PathStyle            bool
	AccessKey, SecretKey string // "" for the credentials of this process
}

// plainS3 are the arguments of the backend s3 that do not matter for reading a state, and those
// that S3Object has. With others, such as a role or a profile, Terraform reads the state.
var plainS3 = []string{"bucket", "key", "region", "workspace_key_prefix", "endpoint", "use_path_style", "force_path_style", "access_key", "secret_key",
	"encrypt", "kms_key_id", "acl", "use_lockfile", "dynamodb_table", "max_retries", "skip_credentials_validation", "skip_region_validation",
	"skip_requesting_account_id", "skip_metadata_api_check", "skip_s3_checksum"}

// s3State reads the state without Terraform, which needs a process and, for the bucket, three requests.
// It is for a container, where Terraform has the credentials of this process.
func (d *Dir) s3State(ctx context.Context) ([]byte, error) {
	object, ok := d.opts.s3Object()
	if d.opts.ReadS3 == nil || !ok {
		return nil, errForTerraform
	}
	state, err := d.opts.ReadS3(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("read s3://%s/%s: %w", object.Bucket, object.Key, err)
	}
	return state, nil
}

// s3Object returns where the state is if Terraform reaches it as this process would.
func (o Options) s3Object() (object S3Object, ok bool) {
	body := o.Backend.Body
	aws := func(name string) bool { return strings.HasPrefix(name, "AWS_") }
	if len(body.Blocks) > 0 || len(o.Credentials) > 0 || slices.ContainsFunc(slices.Collect(maps.Keys(o.Env)), aws) || os.Getenv("AWS_S3_ENDPOINT") != "" {
		return object, false
	}
	for name, v := range body.Attributes {
		if name == "endpoints" && v.Type().IsObjectType() && !v.IsNull() {
			for service := range v.Type().AttributeTypes() {
				if service != "s3" || v.GetAttr(service).Type() != cty.String {
					return object, false
				}
				object.Endpoint = v.GetAttr(service).AsString()
			}
			continue
		}
		if !slices.Contains(plainS3, name) && !v.IsNull() {
			return object, false
		}
	}
	prefix := "env:"
	if v := argument(body, "workspace_key_prefix"); v != "" {
		prefix = v
	}
	object.Bucket, object.Region = argument(body, "bucket"), argument(body, "region")
	object.AccessKey, object.SecretKey = argument(body, "access_key"), argument(body, "secret_key")
	object.PathStyle = isTrue(body, "use_path_style") || isTrue(body, "force_path_style")
	if v := argument(body, "endpoint"); v != "" {
		object.Endpoint = v
	}
	key := argument(body, "key")
	object.Key = prefix + "/" + o.Workspace + "/" + key
	return object, object.Bucket != "" && key != "" && (object.AccessKey == "") == (object.SecretKey == "")
}

// isTrue reports whether an argument is set to true.
func isTrue(b config.Body, name string) bool {
	v, ok := b.Attributes[name]
	return ok && v.Type() == cty.Bool && v.IsKnown() && !v.IsNull() && v.True()
}
