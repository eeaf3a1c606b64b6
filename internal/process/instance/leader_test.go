package instance

import (
	"net"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestLeaderAt_NamesTheAddressForItsHostAndForOthers(t *testing.T) {
	ha := &config.HighAvailability{Instance: config.Instance{Address: "node-1.example.com"}}
	for _, tt := range []struct {
		cfg           config.Config
		ip            string
		local, remote string
	}{
		{config.Config{}, "::", "http://localhost:8558", ""},
		{config.Config{}, "127.0.0.1", "http://localhost:8558", ""},
		{config.Config{TLS: config.APITLS{Enabled: true}}, "10.0.0.5", "https://10.0.0.5:8558", "https://10.0.0.5:8558"},
		{config.Config{HighAvailability: ha}, "::", "http://localhost:8558", "http://node-1.example.com:8558"},
	} {
		l := leaderAt("me", &tt.cfg, &net.TCPAddr{IP: net.ParseIP(tt.ip), Port: 8558})
		if l.Owner != "me" || l.Local != tt.local || tt.remote != "" && l.Remote != tt.remote {
			t.Errorf("%s: %+v", tt.ip, l)
		}
	}
}
