// Package cluster provides high availability as Consul-Terraform-Sync configures
// it: several instances share a store, one of them leads, and each one knows the
// others.
//
// Only the lease decides who leads. In addition, every instance writes a record
// about itself: its id, its address, its Terraform, its tasks. The list of the
// cluster's instances and the check of leader eligibility read these records.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// checkEvery is the interval of the check for compatibility.
	checkEvery = 5 * time.Minute

	// beatMost is the longest interval between two records of an instance. No decision depends on
	// it, so a long session_ttl need not delay the news of a death: 20 seconds after its latest
	// record, an instance is silent.
	beatMost = 7500 * time.Millisecond

	// keptFor is how long a dead instance is listed: as long as Consul keeps a service whose health
	// check fails.
	keptFor = 30 * time.Minute

	// leaveTime limits the removal of the record of an instance that exits.
	leaveTime = 3 * time.Second
)

// Timing is the set of durations of a cluster.
type Timing struct {
	// LeaseTTL is the TTL of the lease, which is renewed after every third of it.
	LeaseTTL time.Duration
	// Claim is how long the claim of a run lasts.
	Claim time.Duration
	// Skew is the maximum difference between clocks, for claims.
	Skew time.Duration
}

// A takeover takes one lease TTL from the leader's last renewal, which was at most a third of the
// TTL before its death. A standby instance polls every tenth of the TTL, and waits a whole TTL
// after it first saw the record. So with 1.55 times session_ttl, a takeover takes between (1 - 1/3)
// x 1.55 = 1.03 and (1 + 2/10) x 1.55 = 1.86 times session_ttl; Consul's sessions and locks take 1
// to 2 times.
const leaseFactor = 1.55

// maxSkew is more than the difference between machines that use NTP.
const maxSkew = 5 * time.Second

// TimingOf returns the durations for a session_ttl.
func TimingOf(sessionTTL time.Duration) Timing {
	return Timing{LeaseTTL: time.Duration(leaseFactor * float64(sessionTTL)), Claim: sessionTTL, Skew: min(maxSkew, sessionTTL/2)}
}

// Instance describes this instance to the others.
type Instance struct {
	Cluster   string // name of the cluster
	ID        string // unique
	Address   string // for people, from other instances; may be ""
	Service   string // its service name in Consul
	Owner     string // of the lease that it takes, see lease.NewOwner
	Lease     string // name of that lease
	Terraform string // program and version
	Version   string // of this program
}

// Options are the dependencies of a Member.
type Options struct {
	Instance
	Store state.Store
	// Base returns the configuration of the files, and Effective the one with the changes made
	// through the API.
	Base       func() *config.Config
	Effective  func(context.Context) (*config.Config, error)
	SessionTTL time.Duration
	Now        func() time.Time
	Log        *slog.Logger
}

// Member is this instance in the cluster. It is safe for concurrent use.
type Member struct {
	Options
	beat        time.Duration
	since       time.Time
	unannounced bool // the latest record could not be written, which was logged
	record      state.Record

	mu      sync.Mutex
	blocked map[string]error
	base    *config.Config
	ofBase  map[string]string // its parts
}

// New returns this instance, before it is announced to the others.
func New(opts Options) *Member {
	return &Member{Options: opts, beat: min(opts.SessionTTL, beatMost), since: opts.Now().UTC()}
}

// Join announces this instance to the others and checks whether it is compatible with them.
// Failures are logged, and Run tries again.
func (m *Member) Join(ctx context.Context) {
	m.announce(ctx)
	m.check(ctx)
}

// Run joins, keeps this instance announced, and checks every five minutes whether it is compatible,
// until ctx ends. Then it removes the instance's record.
func (m *Member) Run(ctx context.Context) {
	m.Join(ctx)
	beat, check := time.NewTicker(m.beat), time.NewTicker(checkEvery)
	defer beat.Stop()
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			m.leave(context.WithoutCancel(ctx))
			return
		case <-beat.C:
			m.announce(ctx)
		case <-check.C:
			m.check(ctx)
		}
	}
}

// Leads records that this instance leads from now on, with this fencing token.
func (m *Member) Leads(ctx context.Context, fence uint64) {
	// People and scripts search for these words in CTS's log.
	m.Log.Info("ha: acquired leadership lock: id="+m.ID, "cluster", m.Cluster, "fence", fence)
	m.check(ctx)
}

// announce writes this instance's record.
func (m *Member) announce(ctx context.Context) {
	err := m.write(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil && !m.unannounced {
		m.Log.Warn("cannot announce this instance to the cluster, will retry", "cluster", m.Cluster, "error", err)
	}
	m.unannounced = err != nil
}

func (m *Member) write(ctx context.Context) error {
	now := m.Now().UTC()
	mine := state.Instance{ID: m.ID, Address: m.Address, Service: m.Service, Owner: m.Owner, Terraform: m.Terraform, Version: m.Version,
		Parts: m.parts(), Since: m.since, Seen: now, Silent: 2*m.beat + maxSkew}
	before := state.Stored[state.Instance]{Record: state.Record{Key: state.InstanceKey(m.ID), Version: m.record.Version}}
	for {
		records, err := m.Store.Apply(ctx, before.Write(mine).Until(now.Add(keptFor)))
		refused, ok := errors.AsType[*state.ConflictError](err)
		switch {
		case err == nil:
			m.record = records[0]
			return nil
		case !ok:
			return err
		case refused.Current == nil:
			before.Version = ""
			continue
		}
		if before, err = state.Decode[state.Instance](*refused.Current); err != nil {
			return err
		}
		if other := before.Data; other.Owner != m.Owner && other.Since.After(m.since) && other.Lives(now) {
			return fmt.Errorf("another instance, %s, has the id %q, too: give each an id of its own in its configuration", other.Owner, m.ID)
		}
	}
}

// leave removes this instance's record.
func (m *Member) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if m.record.Version == "" {
		return
	}
	if _, err := m.Store.Apply(ctx, state.Delete(m.record)); err != nil {
		m.Log.Debug("cannot remove this instance's record: the cluster lists it until its time is over", "cluster", m.Cluster, "error", err)
	}
}

// Status returns the instances, the leader first and then by id. Instances that died lately are
// included as not healthy.
func (m *Member) Status(ctx context.Context) (apispec.ClusterStatus, error) {
	members, leader, err := m.members(ctx)
	if err != nil {
		return apispec.ClusterStatus{}, err
	}
	runners, err := state.ReadPeers[state.Runner](ctx, m.Store, state.RunnerPrefix)
	if err != nil {
		return apispec.ClusterStatus{}, fmt.Errorf("read how much room the instances of the cluster have: %w", err)
	}
	room, led, leads := map[string]state.Runner{}, "", state.Instance{}
	for _, r := range runners {
		room[r.Data.ID] = r.Data
	}
	for _, r := range members {
		if r.Owner == leader {
			led, leads = room[r.ID].Definition, r
		}
	}
	status := apispec.ClusterStatus{ClusterName: m.Cluster, Members: []apispec.ClusterMember{}}
	now := m.Now()
	for _, r := range members {
		if now.Sub(r.Seen) <= keptFor {
			member := apispec.ClusterMember{Healthy: r.Lives(now), ID: r.ID, Leader: r.Owner == leader, ServiceName: r.Service,
				Version: apiview.Optional(r.Version), Terraform: apiview.Optional(r.Terraform), Since: apiview.Moment(r.Since), Seen: apiview.Moment(r.Seen)}
			member.State = new(stateOf(member))
			if r.Address != "" {
				member.Address = &r.Address
			}
			if has, ok := room[r.ID]; ok && member.Healthy {
				member.Parallel, member.Room = &has.Parallel, &has.Room
				if led != "" && has.Definition != led {
					member.Differs = new(overview.Differences(r, leads))
				}
			}
			status.Members = append(status.Members, member)
		}
	}
	slices.SortFunc(status.Members, func(a, b apispec.ClusterMember) int {
		if a.Leader != b.Leader {
			return map[bool]int{true: -1, false: 1}[a.Leader]
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return status, nil
}

func stateOf(m apispec.ClusterMember) apispec.MemberState {
	switch {
	case !m.Healthy:
		return apispec.MemberStateSilent
	case m.Leader:
		return apispec.MemberStateLeads
	}
	return apispec.MemberStateStandsBy
}

// members returns the records of all instances, and the owner of the lease.
func (m *Member) members(ctx context.Context) ([]state.Instance, string, error) {
	holder, err := lease.Read(ctx, m.Store, m.Lease)
	if err != nil {
		return nil, "", err
	}
	stored, err := state.ReadPeers[state.Instance](ctx, m.Store, state.InstancePrefix)
	if err != nil {
		return nil, "", fmt.Errorf("list the instances of the cluster: %w", err)
	}
	return list.Map(stored, func(s state.Stored[state.Instance]) state.Instance { return s.Data }), holder.Owner, nil
}

// Blocked returns the tasks that cannot run on this instance, and why, by the latest check. They
// wait; other tasks run.
func (m *Member) Blocked() map[string]error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.blocked)
}

// incompatible is a reason why this instance cannot do the work of the leader. The words are CTS's,
// which scripts search for in its log.
func incompatible(err error) error { return fmt.Errorf("compatibility check failure: %w", err) }

// check checks whether this instance could lead, and logs why not.
//
// Only a missing module blocks its tasks. Another version of Terraform or
// another configuration is normal while instances are changed one after the
// other: the leader uses its own files, and Terraform itself refuses a state
// that a newer version has written.
func (m *Member) check(ctx context.Context) {
	if err := m.compare(ctx); err != nil && ctx.Err() == nil {
		m.Log.Warn("cannot check whether this instance is compatible, will retry", "cluster", m.Cluster, "error", err)
	}
}

func (m *Member) compare(ctx context.Context) error {
	blocked, err := m.missing(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	before := m.blocked
	m.blocked = blocked
	m.mu.Unlock()
	for _, task := range slices.Sorted(maps.Keys(blocked)) {
		m.Log.Error("the task waits while this instance leads", "cluster", m.Cluster, "task", task, "error", blocked[task])
	}
	for _, task := range slices.Sorted(maps.Keys(before)) {
		if blocked[task] == nil {
			m.Log.Info("the task is no longer blocked", "cluster", m.Cluster, "task", task)
		}
	}
	members, leader, err := m.members(ctx)
	if err != nil {
		return err
	}
	for _, r := range members {
		if r.Owner != leader || r.Owner == m.Owner {
			continue
		}
		if r.Terraform != m.Terraform {
			m.Log.Error("this instance differs from the leader", "cluster", m.Cluster, "leader", r.ID,
				"error", incompatible(fmt.Errorf("this instance runs %s, and %s runs %s", m.Terraform, r.ID, r.Terraform)))
		}
		if differ := config.DifferingParts(m.parts(), r.Parts); len(differ) > 0 {
			m.Log.Error("this instance differs from the leader", "cluster", m.Cluster, "leader", r.ID,
				"error", incompatible(fmt.Errorf("the files of this instance differ from those of %s, so it gets no runs: make these the same: %s", r.ID, strings.Join(differ, ", "))))
		}
	}
	return nil
}

// parts are those of the files, which take long to compute for many tasks.
func (m *Member) parts() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cfg := m.Base(); m.base != cfg {
		m.base, m.ofBase = cfg, cfg.Parts()
	}
	return m.ofBase
}

// missing returns the tasks whose local module is missing on this instance.
func (m *Member) missing(ctx context.Context) (map[string]error, error) {
	cfg, err := m.Effective(ctx)
	if err != nil {
		return nil, err
	}
	missing := map[string]error{}
	for _, t := range cfg.Tasks {
		if !t.LocalModule() { // Terraform downloads it
			continue
		}
		info, err := os.Stat(t.Module)
		if err == nil && !info.IsDir() {
			err = &os.PathError{Op: "stat", Path: t.Module, Err: errors.New("not a directory")}
		}
		if err != nil {
			missing[t.Name] = incompatible(err)
		}
	}
	return missing, nil
}
