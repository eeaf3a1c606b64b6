package awsenv

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

func TestConfig_TakesRegionAndCredentialsFromTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session",
	} {
		t.Setenv(name, value)
	}
	cfg, err := Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	creds, err := cfg.Credentials.Retrieve(t.Context())
	if err != nil || creds.AccessKeyID != "id" || creds.SecretAccessKey != "secret" || creds.SessionToken != "session" {
		t.Errorf("credentials %+v, error %v", creds, err)
	}
	if cfg.Region != "eu-central-1" {
		t.Errorf("region %q", cfg.Region)
	}
}

func TestConfig_SaysWhatTheEnvironmentLacks(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	if _, err := Config(t.Context()); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("error %v", err)
	}
}

func TestConfig_UsesTheAddressesOfTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_ENDPOINT_URL_SECRETS_MANAGER": "http://127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
	for _, on := range []struct{ fips, dual string }{{"", ""}, {"true", ""}, {"", "true"}, {"false", "false"}} {
		t.Setenv("AWS_USE_FIPS_ENDPOINT", on.fips)
		t.Setenv("AWS_USE_DUALSTACK_ENDPOINT", on.dual)
		cfg, err := Config(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o := secretsmanager.NewFromConfig(cfg).Options()
		if aws.ToString(o.BaseEndpoint) != "http://127.0.0.1:1" {
			t.Errorf("requests are sent to %s", aws.ToString(o.BaseEndpoint))
		}
		fips, dual := o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled, o.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled
		if fips != (on.fips == "true") || dual != (on.dual == "true") {
			t.Errorf("%+v: FIPS is used: %v, dual stack: %v", on, fips, dual)
		}
	}
}
