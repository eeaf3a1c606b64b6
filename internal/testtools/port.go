package testtools

import (
	"net"
	"testing"
)

// FreePort finds a TCP port of the loopback address that nothing listens on. Another process may take
// it before the caller does.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
