package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestTheTaskCommandsSpeakMutualTLS(t *testing.T) {
	s := newSite(t)
	ours, theirs := testtools.NewAuthority(t), testtools.NewAuthority(t)
	cert, key := ours.Server("api")
	p := s.start("-config-file", s.config(s.task("lb", "enabled = false\n"+onWeb)+fmt.Sprintf(`
tls {
  cert            = %q
  key             = %q
  ca_cert         = %q
  verify_incoming = true
}
`, cert, key, ours.CA)))
	address := strings.Replace(p.served(), "http://", "https://", 1)
	clientCert, clientKey := ours.Client("script")
	foreignCert, foreignKey := theirs.Client("stranger")
	for _, test := range []struct {
		env  map[string]string
		args []string
		code int
		want string
	}{
		{nil, []string{"-http-addr", address, "-ca-cert", ours.CA, "-client-cert", clientCert, "-client-key", clientKey}, exitOK, "'lb' disable complete!"},
		{map[string]string{"CTS_ADDRESS": address, "CTS_CACERT": ours.CA, "CTS_CLIENT_CERT": clientCert, "CTS_CLIENT_KEY": clientKey}, nil, exitOK, "'lb' disable complete!"},
		{nil, []string{"-http-addr", address, "-ssl-verify=false", "-client-cert", clientCert, "-client-key", clientKey}, exitOK, "'lb' disable complete!"},
		{nil, []string{"-http-addr", address, "-client-cert", clientCert, "-client-key", clientKey}, exitError, "-ca-cert or -ca-path"},
		{nil, []string{"-http-addr", address, "-ca-cert", ours.CA}, exitError, "-client-cert"},
		{nil, []string{"-http-addr", address, "-ca-cert", ours.CA, "-client-cert", foreignCert, "-client-key", foreignKey}, exitError, "-client-cert"},
		{nil, []string{"-http-addr", strings.Replace(address, "https", "http", 1)}, exitError, "give its address with https://"},
	} {
		t.Run(fmt.Sprint(test.env, test.args), func(t *testing.T) {
			for k, v := range test.env {
				t.Setenv(k, v)
			}
			r := (&site{t: t}).bare("task", append([]string{"disable", "lb"}, test.args...)...)
			wantCode(t, r, test.code)
			wantText(t, unwrapped(r.stdout+r.stderr), test.want)
		})
	}
}
