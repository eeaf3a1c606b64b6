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

// LANAddress returns an address of this machine that is not loopback: requests to it look like those
// of another machine. Without one, the test is skipped.
func LANAddress(t testing.TB) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address in a network")
	return ""
}
