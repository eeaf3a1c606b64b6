package awsconfig

import (
	"strings"
	"testing"
)

func TestLambda_TakesRegionAndCredentialsFromTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session",
	} {
		t.Setenv(name, value)
	}
	cfg, err := Lambda(t.Context())
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

func TestLambda_SaysWhatTheEnvironmentLacks(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY"} {
		t.Setenv(name, "")
	}
	if _, err := Lambda(t.Context()); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("error %v", err)
	}
}
