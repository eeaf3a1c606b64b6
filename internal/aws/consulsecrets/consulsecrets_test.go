package consulsecrets_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/consulsecrets"
	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const secretARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:terrapulse"

// fake keeps a secret, and hands out what was read first until that is dropped.
type fake struct {
	now, read secrets.Stack
	known     bool
}

func (f *fake) Stack(_ context.Context, arn string) (secrets.Stack, error) {
	switch {
	case arn == "":
		return secrets.Stack{}, nil
	case arn != secretARN:
		return secrets.Stack{}, errors.New("no such secret")
	case !f.known:
		f.read, f.known = f.now, true
	}
	return f.read, nil
}

func (f *fake) Drop(_, denied string) {
	if string(f.read.ConsulToken) == denied {
		f.known = false
	}
}

func TestConfigure_ConsulClientGetsTheSecrets(t *testing.T) {
	v := &fake{now: secrets.Stack{ConsulToken: "old", ConsulCACert: "CA 1", ConsulClientCert: "CERT", ConsulClientKey: "KEY"}}
	c := consulsecrets.Consul{Source: v, Dir: filepath.Join(t.TempDir(), "consul"), ARN: secretARN}
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

	v.now.ConsulCACert, v.known = "CA 2", false // as after some minutes
	if again := configure(plain); again == got || again.TLS.Cert != got.TLS.Cert {
		t.Errorf("another CA makes no difference: %+v", again)
	}

	own := config.Consul{Token: "own", TLS: config.ClientTLS{CACert: "/own"}}
	if with := configure(own); with.Token != "own" || with.TLS.CACert != "/own" || with.TLS.Key != got.TLS.Key {
		t.Errorf("what the task files say does not stay: %+v", with)
	}
	c.ARN = ""
	if without := configure(plain); without != plain {
		t.Errorf("without a secret it is %+v", without)
	}
	c.ARN = "none"
	if _, err := c.Configure(t.Context(), plain); err == nil {
		t.Error("a secret that does not exist is not missed")
	}
}

func TestRenew_TriesAnotherTokenAfterADenial(t *testing.T) {
	v := &fake{now: secrets.Stack{ConsulToken: "old"}}
	c := consulsecrets.Consul{Source: v, ARN: secretARN}
	if _, another, err := c.Renew(t.Context(), config.Consul{}, "old"); another || err != nil {
		t.Errorf("there is another although the secret is the same: %v", err)
	}
	v.now.ConsulToken = "new"
	if fresh, another, err := c.Renew(t.Context(), config.Consul{}, "old"); !another || fresh.Token != "new" || err != nil {
		t.Errorf("the other is %+v, %v, %v", fresh, another, err)
	}
	if _, another, err := c.Renew(t.Context(), config.Consul{Token: "own"}, "own"); another || err != nil {
		t.Errorf("a token of the task files is taken for a secret: %v", err)
	}
}
