package config

import (
	"strings"
	"testing"
)

func TestLoad_WarnsAboutAKindOfConfigEntriesThatIsNotKnown(t *testing.T) {
	for kind, warns := range map[string]bool{"service-intentions": false, "service-intention": true} {
		cfg := load(t, "f.hcl", aTask(`condition "config-entries" { kind = "`+kind+`" }`))
		if len(cfg.Warnings) > 0 != warns || warns && !strings.Contains(cfg.Warnings[0].String(), `"service-intention" is not a kind of config entries that Terrapulse knows; check the spelling`) {
			t.Errorf("%s: warnings %v", kind, cfg.Warnings)
		}
	}
}
