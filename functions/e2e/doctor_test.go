//go:build linux

package e2e

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

func TestTheDoctorFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	if answer := c.mustInvoke(`{"mode":"doctor"}`); found(answer, "bundle").OK {
		t.Errorf("without a bundle: %+v", answer.Checks)
	}
	c.module("")
	c.tasks(consulBackend, "lb")
	c.mustPush()
	answer := c.mustInvoke(`{"mode":"doctor"}`)
	for _, check := range answer.Checks {
		if !check.OK {
			t.Errorf("%+v", check)
		}
	}
	c.bus.Refuse("ResourceNotFoundException")
	if check := found(c.mustInvoke(`{"mode":"doctor"}`), "events"); check.OK || !strings.Contains(check.Fix, "EventBus") {
		t.Errorf("without such a bus: %+v", check)
	}
	c.proxy.Set(consultest.Hanging)
	if check := found(c.mustInvoke(`{"mode":"doctor"}`), "consul"); check.OK || check.Fix == "" {
		t.Errorf("%+v", check)
	}
}

func found(answer invoke.Answer, name string) invoke.Check {
	for _, check := range answer.Checks {
		if check.Name == name {
			return check
		}
	}
	return invoke.Check{}
}
