//go:build unix

package notify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

func TestCommand_EventIsOnStandardInput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	s := sinkOf(t, fmt.Sprintf(`notify "command" { command = ["sh", "-c", "cat > \"$0\"", %q] }`, out), nil)
	if err := s.Deliver(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(out)
	var got struct {
		Type string
		Data outbox.Event
	}
	if err != nil || json.Unmarshal(body, &got) != nil || got.Type != "run_failed" || got.Data.ID != failed.ID {
		t.Errorf("the command was given %s: %v", body, err)
	}
}

func TestCommand_GetsNoCredentialsOfTerrapulse(t *testing.T) {
	t.Setenv("CONSUL_HTTP_TOKEN", "secret")
	t.Setenv("SMTP_SERVER", "mail")
	s := sinkOf(t, `notify "command" { command = ["sh", "-c", "test -z \"$CONSUL_HTTP_TOKEN\" -a \"$SMTP_SERVER\" = mail"] }`, nil)
	if err := s.Deliver(t.Context(), failed); err != nil {
		t.Error(err)
	}
}

func TestCommand_OtherExitCodeIsAFailureOfTheEvent(t *testing.T) {
	for command, tt := range map[string]struct {
		down bool
		says string
	}{
		`["sh", "-c", "echo not today >&2; exit 3"]`: {false, "exit status 3: not today"},
		`["sh", "-c", "exec sleep 60"]`:              {true, "no answer within 300ms"},
		`["/no/such/program"]`:                       {true, "no such file"},
	} {
		s := sinkOf(t, "notify \"command\" {\n command = "+command+"\n timeout = \"300ms\"\n}", nil)
		err := s.Deliver(t.Context(), failed)
		if err == nil || !strings.Contains(err.Error(), tt.says) || errors.As(err, new(*outbox.DownError)) != tt.down {
			t.Errorf("%s: %v", command, err)
		}
	}
	if err := sinkOf(t, `notify "command" { command = ["true"] }`, nil).Deliver(t.Context(), failed); err != nil {
		t.Errorf("a command that does not read its input: %v", err)
	}
}

func TestSink_ArgumentsOfACommandAreInNoError(t *testing.T) {
	s := sinkOf(t, `notify "command" { command = ["sh", "-c", "echo \"$0 and more\" >&2; exit 3", "hushhush"] }`, nil)
	if err := s.Deliver(t.Context(), failed); err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "exit status 3: (hidden) and more") {
		t.Error(err)
	}
}
