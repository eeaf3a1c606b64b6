package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/fault"
)

func TestOf_OutermostKindCounts(t *testing.T) {
	plain := errors.New("no answer")
	transient := fault.As(fault.Transient, plain)
	for _, tt := range []struct {
		err  error
		want fault.Kind
	}{
		{nil, ""},
		{plain, ""},
		{transient, fault.Transient},
		{fmt.Errorf("read task: %w", transient), fault.Transient},
		{errors.Join(plain, transient), fault.Transient},
		{fault.As(fault.Person, fmt.Errorf("read task: %w", transient)), fault.Person},
	} {
		if got := fault.Of(tt.err); got != tt.want {
			t.Errorf("%v is %q, want %q", tt.err, got, tt.want)
		}
	}
	if transient.Error() != plain.Error() || !errors.Is(transient, plain) {
		t.Errorf("the error reads %q", transient)
	}
}
