package config

import (
	"reflect"
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// changed makes a value another one.
func changed(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[cty.Value]() {
		v.Set(reflect.ValueOf(cty.StringVal("changed")))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		changed(t, v.Field(0))
	case reflect.Slice:
		element := reflect.New(v.Type().Elem()).Elem()
		changed(t, element)
		v.Set(reflect.Append(v, element))
	case reflect.Map:
		into := reflect.MakeMap(v.Type())
		keys := append(v.MapKeys(), reflect.ValueOf("new"))
		for _, key := range keys {
			value := reflect.New(v.Type().Elem()).Elem()
			changed(t, value)
			into.SetMapIndex(key, value)
		}
		v.Set(into)
	case reflect.Interface:
		v.Set(reflect.ValueOf(condition.Spec(condition.ConsulKV{Path: "changed"})))
	default:
		t.Fatalf("no other value of type %s", v.Type())
	}
}

// A field that is missing in the canonical form lets two tasks look the same, so
// that a change of it runs nothing. A field that does not count is listed here.
func TestDigest_EveryFieldCounts(t *testing.T) {
	for name, test := range map[string]struct {
		of     func(*Config) any                // pointer to the struct
		spec   func(changed any) condition.Spec // if the struct is of a spec
		ignore []string
	}{
		"task": {of: func(c *Config) any { return &c.Tasks[0] },
			ignore: []string{"Description", "Labels", "Enabled", "VariableFiles", "BufferPeriod", "RunTimeout", "MovedFrom", "After", "AfterTimeout", "Rules", "Guard", "Approval", "Removal", "Windows", "Checks", "Drift", "Verify", "Cloud", "DeprecatedServices", "Source", "FromAPI"}},
		"condition": {of: func(c *Config) any { return &c.Tasks[0].Condition }},
		"provider":  {of: func(c *Config) any { return &c.Providers[0] }},
		"terraform": {of: func(c *Config) any { return &c.Terraform }, ignore: []string{"Path", "Log", "PersistLog"}},
		"backend":   {of: func(c *Config) any { return &c.Terraform.Backend }},
		"terraform-cloud": {of: func(c *Config) any { cloud := new(Cloud); c.OtherDriver = cloud; return cloud },
			ignore: []string{"Token", "TagsAllowlist", "TagsDenylist", "RequiredProviders", "TLS", "NotificationURL", "NotificationToken"}},
		"workspace": {of: func(c *Config) any { c.OtherDriver = new(Cloud); return &c.Tasks[0].Cloud }},
		"body":      {of: func(c *Config) any { return &c.Providers[0].Body }},
		"services": {of: func(*Config) any { return &condition.ServiceQuery{} },
			spec: func(q any) condition.Spec { return condition.Services{*q.(*condition.ServiceQuery)} }},
		"catalog-services": {of: func(*Config) any { return &condition.CatalogServices{} },
			spec: func(s any) condition.Spec { return *s.(*condition.CatalogServices) }},
		"nodes": {of: func(*Config) any { return &condition.Nodes{} },
			spec: func(s any) condition.Spec { return *s.(*condition.Nodes) }},
		"consul-kv": {of: func(*Config) any { return &condition.ConsulKV{} },
			spec: func(s any) condition.Spec { return *s.(*condition.ConsulKV) }},
		"config-entries": {of: func(*Config) any { return &condition.ConfigEntries{} },
			spec: func(s any) condition.Spec { return *s.(*condition.ConfigEntries) }},
		"resources": {of: func(*Config) any { return &condition.Resources{} },
			spec: func(s any) condition.Spec { return *s.(*condition.Resources) }},
		"schedule": {of: func(*Config) any { return &condition.Schedule{} },
			spec: func(s any) condition.Spec { return *s.(*condition.Schedule) }},
	} {
		digest := func(field string) string {
			cfg := load(t, "f.hcl", digested)
			of := test.of(cfg)
			if field != "" {
				changed(t, reflect.ValueOf(of).Elem().FieldByName(field))
			}
			if test.spec != nil {
				cfg.Tasks[0].Condition.Spec = test.spec(of)
			}
			return cfg.Tasks[0].Digest(cfg)
		}
		before := digest("")
		for _, f := range reflect.VisibleFields(reflect.TypeOf(test.of(load(t, "f.hcl", digested))).Elem()) {
			if !f.IsExported() {
				continue
			}
			if counts, want := digest(f.Name) != before, !slices.Contains(test.ignore, f.Name); counts != want {
				t.Errorf("%s: that %s counts is %v, want %v", name, f.Name, counts, want)
			}
		}
	}
}

// An instance gets no runs if its digest differs, and the parts say why.
func TestParts_DifferExactlyIfTheDigestDiffers(t *testing.T) {
	base := load(t, "f.hcl", digested)
	check := func(what string, cfg *Config) {
		t.Helper()
		digest, differ := cfg.Digest() != base.Digest(), DifferingParts(base.Parts(), cfg.Parts())
		if digest != (len(differ) > 0) {
			t.Errorf("%s: the digest differs: %v, and the parts %q", what, digest, differ)
		}
	}
	for name, of := range map[string]func(*Config) any{
		"task":      func(c *Config) any { return &c.Tasks[0] },
		"condition": func(c *Config) any { return &c.Tasks[0].Condition },
		"buffer":    func(c *Config) any { return &c.Tasks[0].BufferPeriod },
		"guard":     func(c *Config) any { return &c.Tasks[0].Guard },
		"approval":  func(c *Config) any { return &c.Tasks[0].Approval },
		"removal":   func(c *Config) any { return &c.Tasks[0].Removal },
		"drift":     func(c *Config) any { return &c.Tasks[0].Drift },
		"provider":  func(c *Config) any { return &c.Providers[0] },
		"terraform": func(c *Config) any { return &c.Terraform },
		"backend":   func(c *Config) any { return &c.Terraform.Backend },
		"cloud":     func(c *Config) any { cloud := new(Cloud); c.OtherDriver = cloud; return cloud },
		"workspace": func(c *Config) any { c.OtherDriver = new(Cloud); return &c.Tasks[0].Cloud },
		"approvers": func(c *Config) any { return &c.Rules.Approval },
		"consul":    func(c *Config) any { return &c.Consul },
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of(load(t, "f.hcl", digested))).Elem()) {
			if !f.IsExported() || name == "consul" && f.Name == "Address" { // each instance uses the nearest Consul
				continue
			}
			cfg := load(t, "f.hcl", digested)
			changed(t, reflect.ValueOf(of(cfg)).Elem().FieldByName(f.Name))
			check(name+"."+f.Name, cfg)
		}
	}
	for name, change := range map[string]func(*Config){
		"an empty list of predecessors": func(c *Config) { c.Tasks[0].After = []string{} },
		"no task":                       func(c *Config) { c.Tasks = nil },
		"another task":                  func(c *Config) { c.Tasks = append(c.Tasks, Task{Name: "u"}) },
		"no people":                     func(c *Config) { c.Rules.Approval.People = roles.People{} },
	} {
		cfg := load(t, "f.hcl", digested)
		change(cfg)
		check(name, cfg)
	}
}
