package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

func TestBackend_FilesMustAgree(t *testing.T) {
	dir := write(t, "a.hcl", `driver "terraform" { backend "local" {} }`, "b.hcl", `driver "terraform" { backend "s3" {} }`)
	got := mistakesIn(t, options(dir, "."))
	if want := `b.hcl:1: driver.terraform.backend.s3: only one backend can be configured, and backend "local" is already (a.hcl:1); remove one of them`; got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}

	dir = write(t, "a.hcl", `driver "terraform" { backend "s3" {} }`, "b.hcl", "driver \"terraform\" {\n backend \"s3\" {}\n backend \"s3\" {}\n}")
	got = mistakesIn(t, options(dir, "."))
	if want := `b.hcl:3: driver.terraform.backend.s3: only one 'backend' block can be configured in a file; join the blocks`; got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
}

func TestEngine_OpenTofu(t *testing.T) {
	of := func(engine string) *Config {
		return load(t, "f.hcl", change(t, `driver "terraform" {`, "driver \"terraform\" {\n version = \"1.10.0\"\n"+engine))
	}
	terraform, named, tofu := of(""), of(`engine = "terraform"`), of(`engine = "tofu"`)
	if terraform.Terraform.Engine != EngineTerraform || tofu.Terraform.Engine != EngineTofu {
		t.Errorf("engines %q and %q", terraform.Terraform.Engine, tofu.Terraform.Engine)
	}
	if terraform.Digest() != named.Digest() || terraform.Tasks[0].Digest(terraform) == tofu.Tasks[0].Digest(tofu) {
		t.Error("a task's digest is that of its engine, and no other")
	}
}

func TestBackend_DefaultIsConsul(t *testing.T) {
	tests := []struct {
		file string
		want map[string]cty.Value
	}{
		{`consul { kv_path = "a/terraform" }`, map[string]cty.Value{"path": cty.StringVal("a/terraform")}},
		{`consul { kv_path = "terraform" }`, map[string]cty.Value{"path": cty.StringVal("terraform/terraform")}},
		{`consul { kv_path = "a/b/" }`, map[string]cty.Value{"path": cty.StringVal("a/b/terraform")}},
		{`driver "terraform" { backend "consul" { gzip = false } }`, map[string]cty.Value{"gzip": cty.False}},
		{`driver "terraform" { backend "consul" { token = "x" } }`, map[string]cty.Value{"token": cty.StringVal("x")}},
		{`consul { tls { ca_cert = "/ca" } }`, map[string]cty.Value{"scheme": cty.StringVal("https"), "ca_file": cty.StringVal("/ca")}},
	}
	for _, tt := range tests {
		want := map[string]cty.Value{"address": cty.StringVal("localhost:8500"), "path": cty.StringVal("consul-terraform-sync/terraform"), "gzip": cty.True}
		for k, v := range tt.want {
			want[k] = v
		}
		got := load(t, "f.hcl", tt.file).Terraform.Backend
		if diff := cmp.Diff(Backend{"consul", Body{Attributes: want}}, got, ctyValues); diff != "" {
			t.Errorf("%s:\n%s", tt.file, diff)
		}
	}
}

func TestBackend_EachTypeIsAccepted(t *testing.T) {
	for _, kind := range []string{"azurerm", "cloud", "cos", "gcs", "http", "kubernetes", "local", "manta", "oci", "oss", "pg", "remote", "s3"} {
		got := load(t, "f.yaml", "driver: {terraform: {backend: {"+kind+": {key: value}}}}").Terraform.Backend
		want := Backend{kind, Body{Attributes: map[string]cty.Value{"key": cty.StringVal("value")}}}
		if diff := cmp.Diff(want, got, ctyValues); diff != "" {
			t.Errorf("%s:\n%s", kind, diff)
		}
	}
}

func TestProvider_BlocksAndAttributes(t *testing.T) {
	s, n := cty.StringVal, cty.NumberIntVal
	object := func(k string, v cty.Value) cty.Value { return cty.ObjectVal(map[string]cty.Value{k: v}) }
	attrs := func(k string, v cty.Value) Body { return Body{Attributes: map[string]cty.Value{k: v}} }
	block := func(name string, bodies ...Body) Body { return Body{Blocks: map[string][]Body{name: bodies}} }
	tests := []struct {
		name, file, content string
		want                Body
	}{
		{"an attribute that is an object is a block, directly in the provider", "f.hcl", `terraform_provider "p" { x = { a = "1" } }`, block("x", attrs("a", s("1")))},
		{"a block", "f.hcl", `terraform_provider "p" { x { a = "1" } }`, block("x", attrs("a", s("1")))},
		{"an empty block", "f.hcl", `terraform_provider "p" { features {} }`, block("features", Body{})},
		{"repeated blocks", "f.hcl", "terraform_provider \"p\" {\n x { a = \"1\" }\n x { a = \"2\" }\n}", block("x", attrs("a", s("1")), attrs("a", s("2")))},
		{"a block in a block", "f.hcl", `terraform_provider "p" { x { y { a = 1 } } }`, block("x", block("y", attrs("a", n(1))))},
		{"an object in a block", "f.hcl", `terraform_provider "p" { x { y = { a = 1 } } }`, block("x", attrs("y", object("a", n(1))))},
		{"a list of objects in HCL", "f.hcl", `terraform_provider "p" { x = [{ a = 1 }] }`, attrs("x", cty.TupleVal([]cty.Value{object("a", n(1))}))},
		{"lists and types", "f.hcl", `terraform_provider "p" { x = ["1", 2, true, 1.5] }`,
			attrs("x", cty.TupleVal([]cty.Value{s("1"), n(2), cty.True, cty.MustParseNumberVal("1.5")}))},
		{"an object in JSON", "f.json", `{"terraform_provider": {"p": {"x": {"y": {"a": 1}}}}}`, block("x", attrs("y", object("a", n(1))))},
		{"a list of objects in JSON", "f.json", `{"terraform_provider": {"p": {"x": [{"y": [{"a": 1}, {"a": 2}]}]}}}`, block("x", block("y", attrs("a", n(1)), attrs("a", n(2))))},
		{"an empty list", "f.json", `{"terraform_provider": {"p": {"x": []}}}`, attrs("x", cty.EmptyTupleVal)},
		{"null", "f.json", `{"terraform_provider": {"p": {"x": null}}}`, attrs("x", cty.NullVal(cty.DynamicPseudoType))},
		{"a number keeps its precision", "f.json", `{"terraform_provider": {"p": {"x": 12345678901234567890.123}}}`, attrs("x", cty.MustParseNumberVal("12345678901234567890.123"))},
		{"numbers of YAML", "f.yaml", "terraform_provider:\n  p:\n    x: [0x10, 1_000, 1e3, '1', yes, 2026-01-01]\n",
			attrs("x", cty.TupleVal([]cty.Value{n(16), n(1000), n(1000), s("1"), s("yes"), s("2026-01-01")}))},
		{"a string with an interpolation", "f.hcl", `terraform_provider "p" { x = "${env.X} %{if}" }`, attrs("x", s("${env.X} %{if}"))},
		{"a heredoc", "f.hcl", "terraform_provider \"p\" {\n x = <<EOT\na\nb\nEOT\n}", attrs("x", s("a\nb\n"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := load(t, tt.file, tt.content)
			if diff := cmp.Diff(tt.want, cfg.Providers[0].Body, ctyValues); diff != "" {
				t.Errorf("unexpected (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProvider_AutoCommitIsForPANOSOnly(t *testing.T) {
	cfg := load(t, "f.hcl", "terraform_provider \"panos\" { auto_commit = true }\nterraform_provider \"a\" { auto_commit = true }\nterraform_provider \"b\" { auto_commit = false }")
	if len(cfg.Warnings) != 1 || cfg.Warnings[0].String() != `f.hcl:2: terraform_provider.a.auto_commit: auto_commit has no effect on "a": it is for panos; remove it` {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	if len(cfg.Providers) != 3 || !cfg.Providers[0].AutoCommit || cfg.Providers[2].AutoCommit {
		t.Errorf("providers: %+v", cfg.Providers)
	}
}

func TestProvider_WithoutABlockAndSeveralInAMap(t *testing.T) {
	cfg := load(t, "f.yaml", "terraform_provider:\n  a:\n  b:\n    - alias: x\n    - alias: y\ntask:\n  - name: t\n    module: ./m\n    providers: [a, b.y, c]\n    condition: {consul-kv: {path: p}}\n")
	var ids []string
	for _, p := range cfg.Providers {
		ids = append(ids, p.ID())
	}
	if diff := cmp.Diff([]string{"a", "b.x", "b.y"}, ids); diff != "" {
		t.Error(diff)
	}
	if _, ok := cfg.Provider("c"); ok {
		t.Error("found a provider that has no block")
	}
}
