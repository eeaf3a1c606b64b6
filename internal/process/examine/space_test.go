package examine

import (
	"errors"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/invoke/doctor"
)

func TestDisk_TooLittleSpaceIsAProblem(t *testing.T) {
	for _, tt := range []struct {
		free  uint64
		known bool
		says  string
		wrong bool
	}{
		{40 << 30, true, "free in /srv", false},
		{leastSpace, true, "500 MiB free in /srv", false},
		{leastSpace - 1, true, "only 499 MiB free in /srv", true},
		{0, true, "only 0 MiB free in /srv", true},
		{0, false, "is not known on this system", true},
	} {
		words, err := judgeSpace("/srv", tt.free, tt.known)
		if err != nil {
			words = err.Error()
		}
		if (err != nil) != tt.wrong || !strings.Contains(words, tt.says) {
			t.Errorf("%d bytes: %q, %v", tt.free, words, err)
		}
		if skipped := errors.As(err, new(*doctor.NotCheckedError)); skipped == tt.known && err != nil {
			t.Errorf("%d bytes, known %t: %T", tt.free, tt.known, err)
		}
	}
}
