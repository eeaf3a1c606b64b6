package openidtest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// The people whom dex knows. Alice signs in with a form; the other, of the connector Example, without a
// question, and is in a group.
const (
	Alice         = "alice@example.com"
	AlicePassword = "the password of alice"
	Kilgore       = "kilgore@kilgore.trout"
	KilgoresGroup = "authors"

	// The clients that dex knows: one of the pages, with a secret, and a public one.
	ClientID, ClientSecret = "terrapulse", "the secret of terrapulse"
	CLIClientID            = "terrapulse-cli"
)

// Dex starts a real OpenID provider, which sends browsers back to the pages at an address, and returns its
// issuer.
func Dex(t testing.TB, pages string) string {
	t.Helper()
	program := testtools.Dex(t)
	hash, err := bcrypt.GenerateFromPassword([]byte(AlicePassword), bcrypt.DefaultCost)
	if err != nil {
		t.Fatal(err)
	}
	issuer := fmt.Sprintf("http://127.0.0.1:%d/dex", testtools.FreePort(t))
	file := filepath.Join(t.TempDir(), "dex.yaml")
	text := fmt.Sprintf(`
issuer: %s
storage: {type: memory}
web: {http: "%s"}
oauth2: {skipApprovalScreen: true}
enablePasswordDB: true
staticPasswords:
- {email: %q, hash: %q, username: alice, userID: "1"}
connectors:
- {type: mockCallback, id: mock, name: Example}
staticClients:
- {id: %s, name: Terrapulse, secret: %q, redirectURIs: ["%s/ui/session/callback"]}
- {id: %s, name: Terrapulse on the command line, public: true}
`, issuer, issuer[len("http://"):len(issuer)-len("/dex")], Alice, hash, ClientID, ClientSecret, pages, CLIClientID)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output := &testtools.Output{}
	cmd := exec.Command(program, "serve", file)
	cmd.Stdout, cmd.Stderr = output, output
	if err := testtools.StartWithTest(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("dex says:\n%s", output)
		}
	})
	for range 600 {
		resp, err := http.Get(issuer + "/.well-known/openid-configuration")
		if err == nil {
			resp.Body.Close()
			return issuer
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("dex does not answer:\n%s", output)
	return ""
}
