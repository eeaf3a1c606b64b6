package instance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/process/cluster"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// share takes launches of the leader, and lets other instances take launches while this one leads. The
// function that it returns ends that.
func (i *Instance) share(ctx context.Context, member *cluster.Member) (stop func()) {
	if i.shared == nil {
		return func() {}
	}
	files := new(filesDigest)
	i.shared.Works = func() string {
		return works(state.Format, files.of(i.base.Load()), i.program, member.Blocked())
	}
	i.Reconciler.Launcher, i.Reconciler.Apart = i.shared, true
	return background.Run(context.WithoutCancel(ctx), i.shared.Serve)
}

// works identifies what decides how an instance carries out a run: its files, its Terraform, and which
// tasks it cannot run because their modules are missing. An instance with another format of records would
// write some that the leader cannot read, or cannot read the leader's.
func works(format int, files, program string, blocked map[string]error) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %q %q %q", format, files, program, slices.Sorted(maps.Keys(blocked)))
	return hex.EncodeToString(sum.Sum(nil))[:32]
}

// filesDigest is the digest of a configuration, which takes long to compute for many tasks.
type filesDigest struct {
	mu     sync.Mutex
	cfg    *config.Config
	digest string
}

// of returns the digest. The address of Consul does not count: each instance uses the nearest one.
func (d *filesDigest) of(cfg *config.Config) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cfg != cfg {
		elsewhere := *cfg
		elsewhere.Consul.Address = ""
		d.cfg, d.digest = cfg, elsewhere.Digest()
	}
	return d.digest
}
