package secrets_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/aws/secrets"
)

func TestStack_HoldsWhatItsKeysName(t *testing.T) {
	v := newVault(t, map[string]string{parameterARN: `{"consul_token": "a token\n", "vault_token": "", "git_ssh_key": "a key\n", "git_known_hosts": "a\nb\n",
		"registry_tokens": {"app.terraform.io": "another"}}`})
	got, err := v.source.Stack(t.Context(), parameterARN)
	want := secrets.Stack{ConsulToken: "a token", GitSSHKey: "a key", GitKnownHosts: "a\nb", RegistryTokens: map[string]secrets.Text{"app.terraform.io": "another"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if none, err := v.source.Stack(t.Context(), ""); err != nil || !cmp.Equal(none, secrets.Stack{}) {
		t.Errorf("without a secret: %+v, %v", none, err)
	}
}

func TestStack_ErrorsNameTheKeyAndNeverTheValue(t *testing.T) {
	for text, want := range map[string]string{
		"hunter2":                             "it is not a JSON object",
		`"hunter2"`:                           "it is not a JSON object",
		`["hunter2"]`:                         "it is not a JSON object",
		`{"consul_token": "hunter2`:           "it is not a JSON object",
		`{"consul_token": "a"} hunter2`:       "it is not a JSON object",
		`{"consul_tokn": "hunter2"}`:          `it has an unknown key, "consul_tokn"`,
		`{"consul_token": ["hunter2"]}`:       "the value of consul_token has another type",
		`{"consul_token": 12345}`:             "the value of consul_token has another type",
		`{"registry_tokens": "hunter2"}`:      "the value of registry_tokens has another type",
		`{"registry_tokens": {"a.test": {}}}`: "the value of registry_tokens has another type",
		`{"consul_client_cert": "hunter2"}`:   "consul_client_cert needs consul_client_key",
		`{"git_ssh_key": "hunter2"}`:          "git_ssh_key needs git_known_hosts",
	} {
		var held secrets.Stack
		err := held.UnmarshalText([]byte(text))
		if err == nil || !strings.Contains(err.Error(), "the first secret in the parameter SecretArns: "+want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "12345") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
