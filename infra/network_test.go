package infra_test

import (
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// network.yaml creates what its parameters name, and an egress-only gateway needs no interface endpoint.
func TestNetwork_IsAGatewayOrEndpoints(t *testing.T) {
	var template struct {
		Parameters map[string]struct {
			Default string `yaml:"Default"`
		} `yaml:"Parameters"`
		Rules map[string]struct {
			RuleCondition yaml.Node `yaml:"RuleCondition"`
			Assertions    []struct {
				Assert yaml.Node `yaml:"Assert"`
			} `yaml:"Assertions"`
		} `yaml:"Rules"`
		Conditions map[string]yaml.Node `yaml:"Conditions"`
		Resources  map[string]yaml.Node `yaml:"Resources"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "infra/network.yaml")), &template); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		given   map[string]string
		refused bool
		made    string
	}{
		"a gateway":               {map[string]string{"EgressOnlyGateway": "true"}, false, "DynamoDb EgressOnlyInternetGateway Ipv6Route S3"},
		"endpoints":               {map[string]string{"SubnetIds": "subnet-1", "ClientSecurityGroups": "sg-1"}, false, "DynamoDb EcrApi EcrDkr Ecs EndpointGroup EventBridge Logs S3 SecretsManagerEndpoint Sts"},
		"nothing":                 {nil, true, ""},
		"endpoints in no subnet":  {map[string]string{"ClientSecurityGroups": "sg-1"}, true, ""},
		"endpoints for no client": {map[string]string{"SubnetIds": "subnet-1"}, true, ""},
		"a gateway, and the endpoints of the containers": {map[string]string{"EgressOnlyGateway": "true", "SubnetIds": "subnet-1", "ClientSecurityGroups": "sg-1", "FunctionEndpoints": "false", "Secrets": "none"}, false,
			"DynamoDb EcrApi EcrDkr EgressOnlyInternetGateway EndpointGroup Ipv6Route Logs S3 Sts"},
	} {
		t.Run(name, func(t *testing.T) {
			parameters := map[string]string{}
			for name, p := range template.Parameters {
				parameters[name] = p.Default
			}
			for name, value := range tt.given {
				parameters[name] = value
			}
			var value func(n yaml.Node) string // "true" and "false" of conditions
			value = func(n yaml.Node) string {
				var of []string
				for _, c := range n.Content {
					of = append(of, value(*c))
				}
				truth := map[bool]string{true: "true", false: "false"}
				switch n.Tag {
				case "!Ref":
					return parameters[n.Value]
				case "!Condition":
					return value(template.Conditions[n.Value])
				case "!Equals":
					return truth[of[0] == of[1]]
				case "!Not":
					return truth[of[0] == "false"]
				case "!And":
					return truth[!slices.Contains(of, "false")]
				case "!Or":
					return truth[slices.Contains(of, "true")]
				case "!Select", "!Split": // whether there is a second group or table
					return ""
				case "!Sub", "!!str", "!!int":
					return n.Value
				}
				t.Fatalf("line %d has %s", n.Line, n.Tag)
				return ""
			}
			refused := false
			for _, rule := range template.Rules {
				for _, a := range rule.Assertions {
					refused = refused || value(rule.RuleCondition) == "true" && value(a.Assert) == "false"
				}
			}
			if refused != tt.refused {
				t.Fatalf("it is refused: %v", refused)
			}
			var made []string
			for name, r := range template.Resources {
				var resource struct {
					Condition string `yaml:"Condition"`
				}
				if err := r.Decode(&resource); err != nil {
					t.Fatal(err)
				}
				if value(template.Conditions[resource.Condition]) == "true" {
					made = append(made, name)
				}
			}
			slices.Sort(made)
			if got := strings.Join(made, " "); !refused && got != tt.made {
				t.Errorf("it makes %s\nwant %s", got, tt.made)
			}
		})
	}
}
