package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAPI_Block(t *testing.T) {
	dir := t.TempDir()
	const template = `{{ env \"X\" }}`
	for _, tt := range []struct {
		name, inside string
		want         API
		said         string // of what is wrong
	}{
		{"empty", "", API{}, ""},
		{"address and hosts", "bind_address = \"127.0.0.1\"\nhosts = [\"a.example.com.\", \"b_1\", \"*\"]",
			API{BindAddress: "127.0.0.1", Hosts: []string{"a.example.com", "b_1", "*"}}, ""},
		{"address of the pages", "url = \"https://net.example.com:8443/\"\nhosts = [\"a\"]",
			API{URL: "https://net.example.com:8443", Hosts: []string{"a", "net.example.com"}}, ""},
		{"literal token", `token = "0123456789abcdef"`, API{Token: APIToken{Key: "api.token", Text: "0123456789abcdef"}}, ""},
		{"template and file", "token = \"" + template + "\"\nread_token_file = \"r\"",
			API{Token: APIToken{Key: "api.token", Text: `{{ env "X" }}`}, ReadToken: APIToken{Key: "api.read_token_file", File: filepath.Join(dir, "r")}}, ""},

		{"address with a port", `bind_address = "127.0.0.1:80"`, API{}, "f.hcl:2: api.bind_address: not an IP address"},
		{"host with a port", `hosts = ["a:80"]`, API{}, `f.hcl:2: api.hosts: not a host name: "a:80"`},
		{"URL as a host", `hosts = ["http://a"]`, API{}, "not a host name"},
		{"address of the pages without a scheme", `url = "net.example.com"`, API{}, "f.hcl:2: api.url: not the address of a server"},
		{"address of the pages with a path", `url = "https://a/ui/"`, API{}, "not the address of a server"},
		{"address of the pages with a password", `url = "https://a:b@c"`, API{}, "not the address of a server"},
		{"read token alone", `read_token = "x"`, API{}, "read_token has no effect without token"},
		{"token and file", "token = \"x\"\ntoken_file = \"f\"", API{}, "token and token_file are both set"},
		{"empty token", `token = ""`, API{}, "the token is empty"},
		{"empty file name", `token_file = ""`, API{}, "the file has no name"},
		{"template that is not closed", `token = "{{ with secret \"a\" }}x"`, API{}, "missing Vault configuration"},
		{"braces without a look-up", `token = "{{ X }}"`, API{}, "the template looks nothing up"},
		{"template in another key", "hosts = [\"" + template + "\"]", API{}, "only supported for terraform_provider"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			writeFile(t, dir, "f.hcl", "api {\n"+tt.inside+"\n}\n")
			o := options(dir, "f.hcl")
			if tt.said != "" {
				if said := mistakesIn(t, o); !strings.Contains(said, tt.said) {
					t.Errorf("said %q, want %q", said, tt.said)
				}
				return
			}
			cfg, err := Load(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.API); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPI_Loopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true, "": false, "0.0.0.0": false, "::": false, "10.0.0.5": false} {
		if got := (API{BindAddress: address}).Loopback(); got != want {
			t.Errorf("%q: %v", address, got)
		}
	}
}
