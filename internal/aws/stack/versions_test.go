package stack

import (
	"strings"
	"testing"
)

func TestVersions_TooFarApart(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    versions
		fix  string // "" if all is well
	}{
		{"one release", versions{"v1.4.0", "v1.4.0", "v1.4.0", "v1.4.0"}, ""},
		{"without a container", versions{"v1.4.0", "v1.4.0", "v1.4.0", ""}, ""},
		{"one minor version apart", versions{"v1.5.3", "v1.4.0", "v1.4.0", "v1.3.9"}, ""},
		{"between two releases", versions{"v1.4.0-3-g0123456", "v1.4.0", "v1.4.0", "v1.4.0"}, ""},
		{"built from a checkout", versions{"0123456", "89abcde-dirty", unreleased, "dev"}, ""},
		{"a stack without the output", versions{"v1.4.0", "v1.4.0", "", "v1.4.0"}, ""},
		{"an old image", versions{"v1.4.0", "v1.4.0", "v1.4.0", "v1.2.9"}, "set RunnerImage to an image of version v1.4.0"},
		{"an old command line", versions{"v1.2.0", "v1.4.0", "v1.4.0", ""}, "install version v1.4.0 of the command line"},
		{"an old stack", versions{"v2.0.0", "v1.9.0", "v1.9.0", ""}, "or deploy version v2.0.0 of the stack"},
		{"functions of another release than the template", versions{"v1.4.0", "v1.4.0", "v1.4.1", ""}, "deploy the template of one release"},
	} {
		check := tt.v.compare()
		if check.OK != (tt.fix == "") || !strings.Contains(check.Fix, tt.fix) || check.OK == strings.HasPrefix(check.Found, "too far apart: ") {
			t.Errorf("%s: %+v", tt.name, check)
		}
		if !strings.Contains(check.Found, "functions "+tt.v.functions) {
			t.Errorf("%s: the functions' version is missing in %q", tt.name, check.Found)
		}
	}
}
