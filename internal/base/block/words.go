package block

import (
	"strings"
	"time"
)

// Brief is a duration as people write it: 1h, not 1h0m0s.
func Brief(d time.Duration) string { return brief.Replace(d.String()) }

var brief = strings.NewReplacer("h0m0s", "h", "m0s", "m")
