package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Git and programs in Go trust a server whose CA certificate is in layers/trust only.
func TestTrustCertificates_GitAndGoTrustThem(t *testing.T) {
	if os.Getenv("TERRAPULSE_TEST_GET") != "" { // roots are read once in a process
		if _, err := http.Get(os.Getenv("TERRAPULSE_TEST_GET")); err != nil {
			t.Fatal(err)
		}
		return
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	folder, work := t.TempDir(), t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(folder, "own.pem"), certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SSL_CERT_FILE", "GIT_SSL_CAINFO"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	get := func() (program, git string) {
		cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "TERRAPULSE_TEST_GET="+server.URL)
		out, _ := cmd.CombinedOutput()
		said, _ := exec.CommandContext(t.Context(), "git", "ls-remote", server.URL).CombinedOutput()
		return string(out), string(said)
	}
	if program, git := get(); !strings.Contains(program, "certificate") || !strings.Contains(git, "certificate") {
		t.Fatalf("trusted before: %s\n%s", program, git)
	}
	if err := trustCertificates(folder, work); err != nil {
		t.Fatal(err)
	}
	if program, git := get(); !strings.Contains(program, "PASS") || !strings.Contains(git, "not found") {
		t.Errorf("not trusted: %s\n%s", program, git)
	}
}

func TestTrustCertificates_NoneAreGiven(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", "untouched")
	for _, folder := range []string{"", t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		if err := trustCertificates(folder, t.TempDir()); err != nil || os.Getenv("SSL_CERT_FILE") != "untouched" {
			t.Errorf("%q: %v", folder, err)
		}
	}
}
