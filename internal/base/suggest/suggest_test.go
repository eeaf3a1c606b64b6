package suggest

import "testing"

func TestMeant_NamesOnlyALikelyMisspelling(t *testing.T) {
	names := []string{"firewall", "vpn", "web"}
	for name, want := range map[string]string{"firewal": "; did you mean firewall?", "vnp": "; did you mean vpn?", "dns": "", "": ""} {
		if got := Meant(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
