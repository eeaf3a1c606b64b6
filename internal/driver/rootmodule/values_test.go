package rootmodule

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// hclService has the fields of a service in the order of the wire contract.
type hclService struct {
	ID                  string            `hcl:"id"`
	Name                string            `hcl:"name"`
	Kind                string            `hcl:"kind"`
	Address             string            `hcl:"address"`
	Port                int               `hcl:"port"`
	Ports               map[string]int    `hcl:"ports"`
	Meta                map[string]string `hcl:"meta"`
	Tags                []string          `hcl:"tags"`
	Namespace           string            `hcl:"namespace"`
	Status              string            `hcl:"status"`
	Node                string            `hcl:"node"`
	NodeID              string            `hcl:"node_id"`
	NodeAddress         string            `hcl:"node_address"`
	NodeDatacenter      string            `hcl:"node_datacenter"`
	NodeTaggedAddresses map[string]string `hcl:"node_tagged_addresses"`
	NodeMeta            map[string]string `hcl:"node_meta"`
	Peer                string            // is in the key
	CTSUserDefinedMeta  map[string]string `hcl:"cts_user_defined_meta"`

	Portless bool // is not rendered
}

func TestValues_ServicesAreFormattedLikeHclwrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z_][a-zA-Z0-9_-]{0,12}`),
			rapid.StringMatching(`[$%{}"\\\n\tä漢👨‍👩‍👧é]{0,6}`))
		// Two keys that differ only in their normal form are one key in Terraform.
		// A combining accent on a $ is one character to a reader and two tokens,
		// hence two columns, to hclwrite: not worth imitating.
		key := rapid.Map(text, norm.NFC.String).Filter(func(s string) bool {
			return !strings.ContainsAny(s, "$%\uFEFF") || isASCII(s)
		})
		table := rapid.MapOfN(key, text, 0, 3)
		s := condition.Service{
			ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Kind: text.Draw(t, "kind"), Address: text.Draw(t, "address"),
			Port: rapid.Int().Draw(t, "port"), Ports: rapid.MapOfN(key, rapid.Int(), 0, 3).Draw(t, "ports"), Meta: table.Draw(t, "meta"), Tags: rapid.SliceOfN(text, 0, 3).Draw(t, "tags"),
			Namespace: text.Draw(t, "ns"), Status: text.Draw(t, "status"), Node: text.Draw(t, "node"), NodeID: text.Draw(t, "nodeID"),
			NodeAddress: text.Draw(t, "nodeAddress"), NodeDatacenter: text.Draw(t, "dc"), NodeTaggedAddresses: table.Draw(t, "tagged"),
			NodeMeta: table.Draw(t, "nodeMeta"), CTSUserDefinedMeta: table.Draw(t, "ctsMeta"),
		}
		file := hclwrite.NewEmptyFile()
		gohcl.EncodeIntoBody((*hclService)(&s), file.Body())
		var want strings.Builder
		for line := range strings.Lines(string(hclwrite.Format(file.Bytes()))) {
			want.WriteString("    " + line)
		}

		var got strings.Builder
		m := plainModule()
		m.Types = map[string]string{servicesVariable: "map(object({ ports = optional(map(number), {}) }))"}
		m.Blocks = []consul.Block{{Variable: servicesVariable, Entries: condition.Instances{s}}}
		if err := m.renderValues(&got); err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(got.String(), "services = {\n")
		_, body, _ = strings.Cut(body, "\" = {\n")
		body = strings.TrimSuffix(body, "  },\n}\n")
		if diff := cmp.Diff(want.String(), body); diff != "" {
			t.Fatalf("-hclwrite +ours:\n%s", diff)
		}
	})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7e })
}

func TestValues_ServiceKeys(t *testing.T) {
	for want, s := range map[string]condition.Service{
		"api.n.dc1":     {ID: "api", Node: "n", NodeDatacenter: "dc1"},
		"api.n.ns1.dc1": {ID: "api", Node: "n", Namespace: "ns1", NodeDatacenter: "dc1"},
		"n.dc1":         {Node: "n", NodeDatacenter: "dc1"},
		"api.n.dc1.p":   {ID: "api", Node: "n", NodeDatacenter: "dc1", Peer: "p"},
	} {
		if got := s.Key(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestValues_UnknownVariableIsAnError(t *testing.T) {
	m := plainModule()
	m.Blocks = []consul.Block{{Variable: "planets"}}
	if err := m.renderValues(io.Discard); err == nil {
		t.Error("no error")
	}
}

// catalog is n instances with all that Consul usually says about one.
func catalog(n int) condition.Instances {
	services := make(condition.Instances, n)
	for i := range services {
		id := fmt.Sprintf("service-%d", i)
		services[i] = condition.Service{ID: id, Name: id, Address: "10.0.0.1", Port: 8080, Status: "passing",
			Meta: map[string]string{"version": "1"}, Tags: []string{"primary", "v1"},
			Node: "node-1", NodeID: "39e5a7f5-2834-e16d-6925-78167c9f50d8", NodeAddress: "10.0.0.1", NodeDatacenter: "dc1",
			NodeTaggedAddresses: map[string]string{"lan": "10.0.0.1", "lan_ipv4": "10.0.0.1", "wan": "10.0.0.1", "wan_ipv4": "10.0.0.1"},
			NodeMeta:            map[string]string{"consul-network-segment": "", "consul-version": "1.22.3"}}
	}
	return services
}

func TestValues_ManyServicesAreStreamed(t *testing.T) {
	allocations := func(n int) float64 {
		m := Module{Config: &config.Config{}, Task: &config.Task{Name: "t"},
			Blocks: []consul.Block{{Variable: servicesVariable, Entries: catalog(n)}}}
		return testing.AllocsPerRun(3, func() {
			if err := m.renderValues(io.Discard); err != nil {
				t.Fatal(err)
			}
		})
	}
	// The sorted keys of the three maps of a service, and nothing else.
	if few, many := allocations(100), allocations(1100); (many-few)/1000 > 20 {
		t.Errorf("%.1f allocations for each service", (many-few)/1000)
	}
}

func BenchmarkRender10000Services(b *testing.B) {
	m := Module{Config: &config.Config{}, Task: &config.Task{Name: "t"},
		Blocks: []consul.Block{{Variable: servicesVariable, Entries: slices.Clip(catalog(10000))}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := m.renderValues(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
