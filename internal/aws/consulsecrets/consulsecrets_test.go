package consulsecrets_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/consulsecrets"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	secretARN    = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:consul"
	parameterARN = "arn:aws:ssm:eu-west-1:123456789012:parameter/consul"
)

// fake keeps secrets, and hands out what it was read first until that is dropped.
type fake struct{ secrets, read map[string]string }

func newFake(secrets map[string]string) *fake { return &fake{secrets, map[string]string{}} }

func (f *fake) set(arn, value string) {
	f.secrets[arn] = value
	if arn != secretARN {
		delete(f.read, arn) // as after some minutes
	}
}

func (f *fake) Get(_ context.Context, arn string) (string, error) {
	if value, ok := f.read[arn]; ok {
		return value, nil
	}
	value, ok := f.secrets[arn]
	if !ok {
		return "", errors.New("no such secret")
	}
	value = strings.TrimSpace(value) // as secrets.Source does
	f.read[arn] = value
	return value, nil
}

func (f *fake) Drop(arn, refused string) {
	if f.read[arn] == refused {
		delete(f.read, arn)
	}
}

func TestConfigure_ConsulClientGetsTheSecrets(t *testing.T) {
	const ca, cert, key = parameterARN + "-ca", parameterARN + "-cert", parameterARN + "-key"
	v := newFake(map[string]string{secretARN: "old", ca: "CA 1\n", cert: "CERT", key: "KEY"})
	dir := filepath.Join(t.TempDir(), "consul")
	c := consulsecrets.Consul{Source: v, Dir: dir, ARNs: settings.Consul{TokenARN: secretARN, CAARN: ca, CertARN: cert, KeyARN: key}}
	configure := func(cfg config.Consul) config.Consul {
		t.Helper()
		got, err := c.Configure(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	plain := config.Consul{Address: "https://consul:8501"}
	got := configure(plain)
	for path, want := range map[string]string{got.TLS.CACert: "CA 1\n", got.TLS.Cert: "CERT\n", got.TLS.Key: "KEY\n"} {
		data, err := os.ReadFile(path)
		if err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v", path, data, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may read %s: %v %v", path, info, err)
		}
	}
	if got.Token != "old" || got.Address != plain.Address {
		t.Errorf("it is %+v", got)
	}
	if again := configure(plain); again != got {
		t.Errorf("it is another: %+v", again)
	}

	v.set(ca, "CA 2")
	if again := configure(plain); again == got || again.TLS.Cert != got.TLS.Cert {
		t.Errorf("another CA makes no difference: %+v", again)
	}

	own := config.Consul{Token: "own", TLS: config.ClientTLS{CACert: "/own"}}
	if with := configure(own); with.Token != "own" || with.TLS.CACert != "/own" || with.TLS.Key != got.TLS.Key {
		t.Errorf("what the task files say does not stay: %+v", with)
	}
	c.ARNs = settings.Consul{}
	if without := configure(plain); without != plain {
		t.Errorf("without secrets it is %+v", without)
	}
	c.ARNs.TokenARN = "none"
	if _, err := c.Configure(t.Context(), plain); err == nil || !strings.Contains(err.Error(), "ConsulTokenArn") {
		t.Error(err)
	}
}

func TestRenew_TriesAnotherTokenAfterADenial(t *testing.T) {
	v := newFake(map[string]string{secretARN: "old"})
	c := consulsecrets.Consul{Source: v, ARNs: settings.Consul{TokenARN: secretARN}}
	if _, another, err := c.Renew(t.Context(), config.Consul{}, "old"); another || err != nil {
		t.Errorf("there is another although the secret is the same: %v", err)
	}
	v.set(secretARN, "new")
	if fresh, another, err := c.Renew(t.Context(), config.Consul{}, "old"); !another || fresh.Token != "new" || err != nil {
		t.Errorf("the other is %+v, %v, %v", fresh, another, err)
	}
	if _, another, err := c.Renew(t.Context(), config.Consul{Token: "own"}, "own"); another || err != nil {
		t.Errorf("a token of the task files is taken for a secret: %v", err)
	}
}
