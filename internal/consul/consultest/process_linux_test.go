package consultest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// TestServer_DiesWithItsTest runs itself again as a test process that is killed while its server
// runs.
func TestServer_DiesWithItsTest(t *testing.T) {
	testtools.NeedsPrograms(t)
	if os.Getenv("CONSULTEST_KILLED") != "" {
		os.Stdout.WriteString("address " + Start(t).Addr() + "\n")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServer_DiesWithItsTest$")
	cmd.Env = append(os.Environ(), "CONSULTEST_KILLED=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var address string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if after, ok := strings.CutPrefix(lines.Text(), "address "); ok {
			address = after
		}
	}
	_ = cmd.Wait() // the process was killed
	if address == "" {
		t.Fatal("no server was started")
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatalf("the server at %s outlives its test", address)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
