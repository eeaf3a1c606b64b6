package secrets_test

import (
	"strings"
	"testing"
)

func TestSecret_IsReadAgainByARNOrName(t *testing.T) {
	v := newVault(t, map[string]string{
		secretARN: `{"password": "first"}`, "prod/db": `{"password": "by name", "port": 5432, "ssl": true}`, "/prod/token": "a parameter\n", parameterARN: "by ARN",
	})
	secret := func(name, key string) string {
		t.Helper()
		got, err := v.source.Secret(t.Context(), name, key)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := secret(secretARN, "password"); got != "first" {
		t.Errorf("the secret is %q", got)
	}
	v.set(secretARN, `{"password": "rotated"}`, "")
	for name, key := range map[string]string{secretARN: "password", secretARN + ":password::": ""} {
		if got := secret(name, key); got != "rotated" {
			t.Errorf("%s is %q after a rotation", name, got)
		}
	}
	if _, err := v.source.Secret(t.Context(), secretARN+":password::", "user"); err == nil || !strings.Contains(err.Error(), `"user"`) {
		t.Errorf("two keys are taken for one: %v", err)
	}
	if got := secret("prod/db", "password"); got != "by name" {
		t.Errorf("the secret with a name is %q", got)
	}
	if port, ssl := secret("prod/db", "port"), secret("prod/db", "ssl"); port != "5432" || ssl != "true" { // as the secrets of RDS have them
		t.Errorf("the port is %q, ssl %q", port, ssl)
	}
	for name, want := range map[string]string{"/prod/token": "a parameter", parameterARN: "by ARN"} {
		if got, err := v.source.Parameter(t.Context(), name); got != want || err != nil {
			t.Errorf("parameter %s is %q, %v", name, got, err)
		}
	}
	v.set("/prod/token", "S3CRET", "ParameterNotFound")
	if _, err := v.source.Parameter(t.Context(), "/prod/token"); err == nil || !strings.Contains(err.Error(), "/prod/token") {
		t.Errorf("the error of a parameter that is not there does not name it: %v", err)
	}
}
