//go:build linux

package e2e

import (
	"testing"
)

// The script for a real account finds no difference in an account of stand-ins. These have no
// metrics.
func TestVerify_FindsNoDifferenceInARehearsedAccount(t *testing.T) {
	a := newAccount(t, prebuilt(t))
	out, err := a.run("make build && infra/verify-aws", a.clone("verify"), "CONSUL=consul.example.com:8501", "SUBNETS=subnet-1,subnet-2",
		"CONSUL_HTTP_ADDR=http://"+a.consul.Addr(), "EVERY=1", "SLOW=45", "PATIENCE=300", "WITHOUT=metrics")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
