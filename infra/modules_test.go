package infra_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
)

// Only containers use the cache of providers. They cannot remove anything from it.
func TestTemplate_OnlyContainersUseTheCacheOfProviders(t *testing.T) {
	stack := every(t)
	const object = "arn:aws:s3:::the-bucket/some-prefix/providers/0123"
	for role, policy := range stack.Roles {
		for _, action := range []string{"s3:GetObject", "s3:PutObject", "s3:DeleteObject"} {
			if may := (role == "RunnerRole" || role == "PlanRole") && action != "s3:DeleteObject"; policy.Allows(t, ask(action, object)) != may {
				t.Errorf("%s, %s: %v", role, action, !may)
			}
		}
	}
}

// Through the proxy, a container must reach neither Consul nor the address where ECS gives it its
// credentials.
func TestTemplate_SomeAddressesAreReachedWithoutTheProxy(t *testing.T) {
	stack := every(t)
	env := map[string]string{}
	for _, v := range stack.Runner().Environment {
		env[*v.Name] = *v.Value
	}
	if env["HTTPS_PROXY"] != "http://proxy.example.com:3128" {
		t.Errorf("the proxy is %s", env["HTTPS_PROXY"])
	}
	direct := strings.Split(env["NO_PROXY"], ",")
	for _, want := range []string{"169.254.170.2", "consul.example.com:8501", "dynamodb.eu-west-1.amazonaws.com", "s3.eu-west-1.amazonaws.com", ".internal.example.com", "10.0.0.0/8"} {
		if !slices.Contains(direct, want) {
			t.Errorf("%s goes through the proxy: %v", want, direct)
		}
	}
	least := deployed(t, "least", rehearsal.Minimal("10.0.0.1:8500"))
	for _, v := range least.Runner().Environment {
		if strings.HasSuffix(*v.Name, "_PROXY") {
			t.Errorf("without a proxy, the template sets %s=%s", *v.Name, *v.Value)
		}
	}
}
