package config

import (
	"strings"
	"testing"
)

func TestAuditRetention_IsAtLeastAnHour(t *testing.T) {
	for value, wrong := range map[string]bool{"1h": false, "59m": true, "0s": true, "-1h": true} {
		_, err := Load(options(write(t, "f.hcl", `audit_retention = "`+value+`"`), "f.hcl"))
		if got := err != nil && strings.Contains(err.Error(), "audit_retention: "); got != wrong {
			t.Errorf("%s: %v", value, err)
		}
	}
}
