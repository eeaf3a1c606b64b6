package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

func TestSettingChanges_NamesRulesRightsAndSettingsWithoutSecrets(t *testing.T) {
	const before = `
guard {
  max_removed = 3
}
approval {
  require = 2
}
api {
  token = "{{ env \"API_TOKEN\" }}"
  access {
    grant {
      roles = ["view"]
      to    = ["token:ann"]
    }
  }
}
vault {
  enabled = true
  address = "https://vault"
  token   = "hunter2-hunter2"
}
terraform_provider "local" {
  secret = "hunter3"
}
`
	dir := t.TempDir()
	was := configtest.Load(t, dir, "f.hcl", before)
	if same := config.SettingChanges(was, configtest.Load(t, dir, "f.hcl", before)); len(same) > 0 {
		t.Errorf("the same files differ: %q", same)
	}
	after := strings.NewReplacer("max_removed = 3", "enabled = false", "require = 2", "require = 1", `["view"]`, `["administer"]`,
		"hunter2-hunter2", "hunter4-hunter4", "hunter3", "hunter5").Replace(before)
	text := strings.Join(config.SettingChanges(was, configtest.Load(t, dir, "f.hcl", after+"terraform_provider \"other\" {\n}\n")), "\n")
	for _, part := range []string{"guard.", "approval.require: ", "api.access.grants: no longer [view] to token:ann", "api.access.grants: now [administer] to token:ann",
		"vault.token: has another value", "providers: 2 instead of 1"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if strings.Contains(text, "hunter") {
		t.Errorf("a secret is shown:\n%s", text)
	}
}

func TestSettingChanges_SayNothingOfABlockThatMoved(t *testing.T) {
	const before = `
notify "webhook" {
  url = "https://a.example.com"
}
`
	dir := t.TempDir()
	was := configtest.Load(t, dir, "f.hcl", before)
	if moved := config.SettingChanges(was, configtest.Load(t, dir, "f.hcl", "# a comment\n"+before)); len(moved) > 0 {
		t.Errorf("a block that moved is a change: %q", moved)
	}
	after := strings.Replace(before, "a.example", "b.example", 1)
	if other := config.SettingChanges(was, configtest.Load(t, dir, "f.hcl", "# a comment\n"+after)); len(other) != 1 || other[0] != "notify.url: has another value" {
		t.Errorf("another address is %q", other)
	}
}

func TestSettingChanges_NameWhoGetsRightsThroughAGroupOrAPerson(t *testing.T) {
	const before = `
approval {
  from = ["group:admins", "token:cio"]
}
api {
  token = "{{ env \"API_TOKEN\" }}"
  access {
    grant {
      roles = ["administer"]
      to    = ["group:admins"]
    }
    group "admins" {
      members = ["token:ann", "person:eve"]
    }
    person "eve" {
      identities = ["token:eve-laptop"]
    }
  }
}
`
	dir := t.TempDir()
	was := configtest.Load(t, dir, "f.hcl", before)
	for name, tt := range map[string]struct {
		from, to string
		want     []string
	}{
		"a member":      {`["token:ann", "person:eve"]`, `["token:ann", "token:mallory", "person:eve"]`, []string{"api.access.groups.admins: now token:mallory"}},
		"for another":   {`"token:ann"`, `"token:mallory"`, []string{"api.access.groups.admins: no longer token:ann", "api.access.groups.admins: now token:mallory"}},
		"another order": {`["token:ann", "person:eve"]`, `["person:eve", "token:ann"]`, nil},
		"an identity":   {`["token:eve-laptop"]`, `["token:eve-laptop", "token:mallory"]`, []string{"api.access.groups.admins: now token:mallory", "api.access.people.eve: now token:mallory"}},
		"a new group":   {`group "admins" {`, "group \"ops\" {\n members = [\"token:mallory\"]\n}\n group \"admins\" {", []string{"api.access.groups.ops: now token:mallory"}},
		"an approver":   {`["group:admins", "token:cio"]`, `["group:admins", "token:mallory"]`, []string{"approval.from: no longer token:cio", "approval.from: now token:mallory"}},
	} {
		after := strings.Replace(before, tt.from, tt.to, 1)
		got := config.SettingChanges(was, configtest.Load(t, dir, "f.hcl", after))
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
