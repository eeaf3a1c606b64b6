package terraformcli

import (
	"fmt"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// How much garbage Terraform and its providers, which are programs in Go, let
// pile up before they collect it: GOGC=800 instead of 100, as they end soon
// anyway. In CPU time of the user and peak memory of one process (Terraform
// 1.11.4, 2 cores):
//
//	                      GOGC=100       200            400            800
//	5 services            0.13 s  71 MB  0.13 s  72 MB  0.12 s  71 MB  0.10 s   74 MB
//	3,000 services        22.0 s 303 MB  16.8 s 570 MB  14.0 s  1.1 GB  12.8 s  1.5 GB
//	the same with GOMEMLIMIT=512MiB: 16.0 s 587 MB; with 256MiB: 21.5 s 313 MB
//
// With groups of services (see package rootmodule) and every attribute, 4,000 services
// need 1.97 s and 649 MB with 400, and 1.72 s and 661 MB with 800. With more they need more memory and
// no less time: 761 MB with 1600, and 1.1 GB without collection.
//
// So GOMEMLIMIT takes little of the gain where memory is scarce, and keeps all runs
// at a time within the memory that there is.
const gogc = "800"

const (
	// shareOfRun is the part of a run's share of the memory that each of its processes
	// may use before it collects as often as it must. Terraform needs most of the
	// memory of a run; providers rarely need as much at the same time.
	shareOfRun = 0.6

	// leastLimit is the smallest limit that is set. Below it, a process with a
	// provider of usual size would do nothing but collect: it is left as it is.
	leastLimit = 256 << 20
)

// memory is how much memory there is, in bytes, for this process and all that it
// starts: that of the machine, or what the container may use. 0 if not known.
var memory = sync.OnceValue(func() uint64 {
	machine, err := memlimit.FromSystem()
	if err != nil {
		machine = 0
	}
	container, err := memlimit.FromCgroup()
	if err != nil || machine > 0 && container > machine {
		return machine
	}
	return container
})

// collectLess has the processes of a run collect less garbage where the memory
// allows it. What the user has set stays.
func collectLess(env map[string]string, memory uint64, parallel int) {
	set := env["GOGC"] != "" || env["GOMEMLIMIT"] != ""
	limit := uint64(float64(memory) / float64(max(parallel, 1)) * shareOfRun)
	if set || limit < leastLimit {
		return
	}
	env["GOGC"], env["GOMEMLIMIT"] = gogc, fmt.Sprintf("%dMiB", limit>>20)
}
