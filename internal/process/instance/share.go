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
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// share takes launches of other instances, and gives them launches while this one leads. The
// function that it returns ends that: others take no launch from this instance, and give it none.
func (i *Instance) share(ctx context.Context, member *cluster.Member) (stop func()) {
	if i.shared == nil {
		return func() {}
	}
	files := new(filesDigest)
	i.shared.Works = func() string { return works(files.of(i.base.Load()), i.program, member.Blocked()) }
	i.Reconciler.Launcher, i.Reconciler.Apart = i.shared, true
	return background.Run(context.WithoutCancel(ctx), i.shared.Serve)
}

// works identifies what decides how an instance carries out a run, beside the store: its files, its
// Terraform, and which tasks it cannot run because their modules are missing.
func works(files, program string, blocked map[string]error) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q", files, program, slices.Sorted(maps.Keys(blocked)))
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
