package notification

import "testing"

func TestSigned_OnlyWithTheKey(t *testing.T) {
	// printf '{"payload_version":1}' | openssl dgst -sha512 -hmac key
	const right = "ee89f97c86124dbb84467d7f3869da543e959d0afdef538d4f8b81c1e06794fb2c101a2e221865fabdf4ae52748afe187ba23107b0b34854a218fb58bf5e1366"
	body := []byte(`{"payload_version":1}`)
	for name, tt := range map[string]struct {
		key, signature string
		body           []byte
		want           bool
	}{
		"signed":            {"key", right, body, true},
		"another key":       {"other", right, body, false},
		"another body":      {"key", right, []byte(`{"payload_version":2}`), false},
		"no signature":      {"key", "", body, false},
		"not hexadecimal":   {"key", "zz", body, false},
		"cut":               {"key", right[:64], body, false},
		"no key":            {"", right, body, false},
		"signed without it": {"", "ff0f2ddb5b47b0fc1f0d58fb6559cb84fb075f320ea8973a985681f0fbeacc75e6497d2ce7f8ee4093b8a5e8ebb5936772655a91ca70d13f94bdc3a5e4393338", body, false},
	} {
		if got := Signed(tt.key, tt.signature, tt.body); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
