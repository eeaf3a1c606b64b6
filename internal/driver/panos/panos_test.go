package panos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/driver/panos/panostest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// provider returns a provider block for a firewall.
func provider(s *panostest.Server, arguments map[string]cty.Value, env map[string]string) config.Provider {
	host, port := s.Host()
	body := map[string]cty.Value{"hostname": cty.StringVal(host), "port": cty.StringVal(port)}
	for name, v := range arguments {
		body[name] = v
	}
	return config.Provider{Name: "panos", AutoCommit: true, Env: env, Body: config.Body{Attributes: body}}
}

func text(s string) cty.Value { return cty.StringVal(s) }

// shown is a text that has no secrets.
func shown(text string) string { return text }

// commitTo commits with short waits.
func commitTo(t *testing.T, ctx context.Context, p config.Provider) (string, error) {
	t.Helper()
	c, err := New(p, t.TempDir(), shown)
	if err != nil {
		t.Fatal(err)
	}
	c.wait = time.Millisecond
	var out bytes.Buffer
	err = c.Commit(ctx, &out)
	return out.String(), err
}

func TestCommit_CommitsTheAdministratorsChanges(t *testing.T) {
	for name, p := range map[string]func(*panostest.Server) config.Provider{
		"password": func(s *panostest.Server) config.Provider {
			return provider(s, map[string]cty.Value{"username": text("admin"), "password": text("p4n-password")}, nil)
		},
		"key": func(s *panostest.Server) config.Provider {
			return provider(s, map[string]cty.Value{"username": text("admin"), "api_key": text("p4n-key")}, nil)
		},
		"task_env": func(s *panostest.Server) config.Provider {
			return provider(s, nil, map[string]string{"PANOS_USERNAME": "admin", "PANOS_PASSWORD": "p4n-password"})
		},
		"environment": func(s *panostest.Server) config.Provider {
			t.Setenv("PANOS_USERNAME", "admin")
			t.Setenv("PANOS_API_KEY", "p4n-key")
			return provider(s, nil, nil)
		},
		"file": func(s *panostest.Server) config.Provider {
			host, port := s.Host()
			file := filepath.Join(t.TempDir(), "panos.json")
			creds := fmt.Sprintf(`{"hostname": %q, "port": %s, "username": "admin", "api_key": "p4n-key"}`, host, port)
			if err := os.WriteFile(file, []byte(creds), 0o600); err != nil {
				t.Fatal(err)
			}
			return config.Provider{Name: "panos", AutoCommit: true, Body: config.Body{Attributes: map[string]cty.Value{"json_config_file": text(file)}}}
		},
	} {
		s := panostest.Start(t)
		out, err := commitTo(t, t.Context(), p(s))
		if err != nil || s.Changed() || !strings.Contains(out, "job 1") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		commands, _ := s.Commits()
		if want := "<commit><partial><admin><member>admin</member></admin></partial></commit>"; len(commands) != 1 || commands[0] != want {
			t.Errorf("%s: the commands are %q", name, commands)
		}
		out, err = commitTo(t, t.Context(), p(s))
		if err != nil || !strings.Contains(out, "nothing to be committed") {
			t.Errorf("%s: without changes: %v\n%s", name, err, out)
		}
	}
}

func TestCommit_IsRetriedFourTimes(t *testing.T) {
	s := panostest.Start(t)
	p := provider(s, map[string]cty.Value{"username": text("admin"), "password": text("p4n-password")}, nil)
	s.Fail(4)
	if out, err := commitTo(t, t.Context(), p); err != nil || s.Changed() {
		t.Errorf("the fifth attempt did not succeed: %v\n%s", err, out)
	}
	if commands, _ := s.Commits(); len(commands) != 5 {
		t.Errorf("there were %d commits", len(commands))
	}
	s = panostest.Start(t)
	s.Fail(5)
	p = provider(s, map[string]cty.Value{"username": text("admin"), "password": text("p4n-password")}, nil)
	_, err := commitTo(t, t.Context(), p)
	for _, want := range []string{"not committed to PAN-OS", `provider "panos"`, "rule 100% wrong is invalid", "next run"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestCommit_RefusedLoginIsNotRetried(t *testing.T) {
	s := panostest.Start(t)
	p := provider(s, map[string]cty.Value{"username": text("admin"), "password": text("S3CRET-wrong")}, nil)
	_, err := commitTo(t, t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "Invalid credentials") || strings.Contains(err.Error(), "S3CRET") {
		t.Errorf("the error is %v", err)
	}
	if _, logins := s.Commits(); logins != 1 {
		t.Errorf("%d logins with a wrong password: the account would be locked", logins)
	}
}

func TestCommit_EndsWithTheContext(t *testing.T) {
	s := panostest.Start(t)
	s.Never()
	p := provider(s, map[string]cty.Value{"username": text("admin"), "api_key": text("p4n-key")}, nil)
	ctx, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(300*time.Millisecond, func() { stop(errors.New("the program is stopped")) })
	if _, err := commitTo(t, ctx, p); err == nil || !strings.Contains(err.Error(), "the program is stopped") {
		t.Errorf("the error is %v", err)
	}
}

func TestCommit_VerifiesTheCertificateIfConfigured(t *testing.T) {
	s := panostest.Start(t)
	p := provider(s, map[string]cty.Value{"username": text("admin"), "api_key": text("p4n-key"), "verify_certificate": cty.True}, nil)
	_, err := commitTo(t, t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "certificate") || !s.Changed() {
		t.Errorf("a certificate of an unknown authority is believed: %v", err)
	}
}

func TestNew_ReportsMissingArguments(t *testing.T) {
	for want, p := range map[string]config.Provider{
		"hostname":           {Name: "panos", AutoCommit: true},
		"PANOS_USERNAME":     {Name: "panos", AutoCommit: true, Env: map[string]string{"PANOS_HOSTNAME": "h"}},
		"PANOS_API_KEY":      {Name: "panos", AutoCommit: true, Env: map[string]string{"PANOS_HOSTNAME": "h", "PANOS_USERNAME": "u"}},
		"port (PANOS_PORT)":  {Name: "panos", AutoCommit: true, Env: map[string]string{"PANOS_PORT": "S3CRET"}},
		"verify_certificate": {Name: "panos", AutoCommit: true, Env: map[string]string{"PANOS_VERIFY_CERTIFICATE": "S3CRET"}},
		"json_config_file":   {Name: "panos", AutoCommit: true, Body: config.Body{Attributes: map[string]cty.Value{"json_config_file": text("none.json")}}},
	} {
		_, err := New(p, t.TempDir(), shown)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `provider "panos"`) || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	for _, p := range []config.Provider{{Name: "panos"}, {Name: "aws", AutoCommit: true}} {
		if c, err := New(p, "", shown); c != nil || err != nil {
			t.Errorf("%+v: %v, %v", p, c, err)
		}
	}
}

func TestNew_ReadsHeadersFromMapBlockAndEnvironment(t *testing.T) {
	headers := map[string]cty.Value{"X-A": text("a"), "X-B": cty.NumberIntVal(2)}
	base := config.Provider{Name: "panos", AutoCommit: true, Env: map[string]string{"PANOS_HOSTNAME": "h", "PANOS_USERNAME": "u", "PANOS_PASSWORD": "p"}}
	fromMap, fromBlock, fromEnv := base, base, base
	fromMap.Body.Attributes = map[string]cty.Value{"additional_headers": cty.ObjectVal(headers)}
	fromBlock.Body.Blocks = map[string][]config.Body{"additional_headers": {{Attributes: headers}}}
	fromEnv.Env = map[string]string{"PANOS_HEADERS": `{"X-A": "a", "X-B": "2"}`}
	maps.Copy(fromEnv.Env, base.Env)
	for name, p := range map[string]config.Provider{"map": fromMap, "block": fromBlock, "environment": fromEnv} {
		c, err := New(p, "", shown)
		if err != nil || len(c.client.Headers) != 2 || c.client.Headers["X-A"] != "a" || c.client.Headers["X-B"] != "2" {
			t.Errorf("%s: %v, %v", name, c.client.Headers, err)
		}
	}
}
