package condition

import (
	"strings"
	"testing"
)

func TestSpec_SaysInWordsWhatIsWatched(t *testing.T) {
	many := make([]string, 23)
	for i := range many {
		many[i] = "s" + string(rune('a'+i))
	}
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Services{{Names: []string{"web"}}}, "service web"},
		{Services{{Names: []string{"api", "db", "web"}, Datacenter: "dc2", Namespace: "n"}}, "services api, db and web in datacenter dc2 in namespace n"},
		{Services{{Names: many}}, "services " + strings.Join(many[:20], ", ") + " and 3 more"},
		{Services{{Regexp: new("^web"), Filter: "\n\"v1\" in Service.Tags\n"}}, `services that match "^web" with filter "v1" in Service.Tags`},
		{Services{{Regexp: new("")}}, "every service"},
		{Services{{Names: []string{"api"}, Datacenter: "dc1"}, {Names: []string{"web"}}}, "service api in datacenter dc1; service web"},
		{CatalogServices{Regexp: ".*"}, "names of every service"},
		{CatalogServices{Regexp: "^web", NodeMeta: map[string]string{"rack": "a", "arch": "arm"}}, `names of services that match "^web" on nodes with arch=arm, rack=a`},
		{Services{{Names: []string{"web"}, Peer: "cluster-02"}}, "service web of peer cluster-02"},
		{CatalogServices{Regexp: ".*", Peer: "cluster-02"}, "names of every service of peer cluster-02"},
		{Nodes{}, "every node"},
		{Nodes{Status: []string{"passing", "warning"}, Datacenter: "dc1", NodeMeta: map[string]string{"rack": "a", "arch": "arm"}, Filter: `Node != "n1"`},
			`nodes that are passing or warning in datacenter dc1 with arch=arm, rack=a with filter Node != "n1"`},
		{ConsulKV{Path: "cfg/web", Datacenter: "dc1"}, "key cfg/web in datacenter dc1"},
		{ConsulKV{Path: "cfg/", Recurse: true}, "keys that begin with cfg/"},
		{ConsulKV{Path: "/", Recurse: true}, "every key"},
		{ConfigEntries{Of: "service-intentions", Name: "web", Datacenter: "dc1"}, "service-intentions entry web in datacenter dc1"},
		{ConfigEntries{Of: "service-intentions", Regexp: "^web", Namespace: "n"}, `service-intentions entries that match "^web" in namespace n`},
		{ConfigEntries{Of: "mesh"}, "every mesh entry"},
		{Resources{Group: "demo", Version: "v2", Of: "artist", Namespace: "n"}, "resources demo/v2/artist in namespace n"},
		{Resources{Group: "demo", Version: "v2", Of: "artist", NamePrefix: "k"}, "resources demo/v2/artist that begin with k"},
		{Schedule{Cron: "0 3 * * Mon-Fri"}, "schedule 0 3 * * Mon-Fri"},
	} {
		if got := tt.spec.String(); got != tt.want {
			t.Errorf("%#v\n got %s\nwant %s", tt.spec, got, tt.want)
		}
	}
}
