package environ

import (
	"slices"
	"testing"
)

func TestShared_HasNoCredentialsOfTerrapulse(t *testing.T) {
	for _, name := range []string{"CONSUL_HTTP_TOKEN", "VAULT_TOKEN", "TERRAPULSE_TOKEN", "OTEL_EXPORTER_OTLP_HEADERS", "CONSUL_HTTP_ADDR", "SMTP_PASSWORD"} {
		t.Setenv(name, "x")
	}
	got := Shared()
	for entry, there := range map[string]bool{"CONSUL_HTTP_TOKEN=x": false, "VAULT_TOKEN=x": false, "TERRAPULSE_TOKEN=x": false, "OTEL_EXPORTER_OTLP_HEADERS=x": false, "CONSUL_HTTP_ADDR=x": true, "SMTP_PASSWORD=x": true} {
		if slices.Contains(got, entry) != there {
			t.Errorf("%s is there: %v", entry, !there)
		}
	}
	if Withheld("VAULT_TOKEN", "vault") || !Withheld("VAULT_TOKEN", "consul") {
		t.Error("a provider gets another credential than its own")
	}
}
