package launch

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// The formats of this version of Terrapulse and of the next one, as records have them.
var (
	thisFormat = fmt.Appendf(nil, `{"format":%d`, state.Format)
	nextFormat = fmt.Appendf(nil, `{"format":%d`, state.Format+1)
)

// upgraded is the store as a newer version of Terrapulse sees it: it reads the records of both formats, and writes
// those of its own.
type upgraded struct{ *cluster }

func read(rec state.Record) state.Record {
	rec.Value = bytes.Replace(rec.Value, nextFormat, thisFormat, 1)
	return rec
}

func (u upgraded) Get(ctx context.Context, key string) (state.Record, error) {
	rec, err := u.cluster.Get(ctx, key)
	return read(rec), err
}

func (u upgraded) List(ctx context.Context, prefix string) ([]state.Record, error) {
	all, err := u.cluster.List(ctx, prefix)
	for i := range all {
		all[i] = read(all[i])
	}
	return all, err
}

func (u upgraded) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	newer := make([]state.Change, len(changes))
	for i, c := range changes {
		c.Value = bytes.Replace(c.Value, thisFormat, nextFormat, 1)
		newer[i] = c
	}
	written, err := u.cluster.Apply(ctx, newer...)
	for i := range written {
		written[i] = read(written[i])
	}
	return written, err
}

// isNewer reports whether a newer version has written a record.
func (c *cluster) isNewer(key string) bool {
	rec, err := c.Get(c.t.Context(), key)
	if err != nil {
		c.t.Fatal(err)
	}
	return bytes.HasPrefix(rec.Value, nextFormat)
}

func same() string { return "same" }

func TestShared_NewerLeaderCarriesOutWhatAnOlderInstanceCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		newer := upgraded{c}
		a, stopA := c.instanceOn(newer, "a", same)
		defer stopA()
		_, stopB := c.instance("b", "same")
		defer stopB()
		time.Sleep(3 * time.Second)
		defer a.Share(t.Context(), newer.Apply)()
		time.Sleep(3 * time.Second)
		c.launchOn(newer, a, "1", "2", "3", "4", "5")
		time.Sleep(3 * time.Second)
		if !c.isNewer(state.LaunchKey("3")) || !c.isNewer(state.RunnerKey("b")) {
			t.Fatal("no launch was offered to the older instance, in a record that it cannot read")
		}
		time.Sleep(2 * time.Minute)
		if by := c.by(); by["a"] != 5 || by["b"] != 0 {
			t.Errorf("they carried out %v", by)
		}
	})
}

func TestShared_OlderInstanceLeavesALaunchOfANewerVersionToTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		newer := upgraded{c}
		b, stopB := c.instance("b", "same")
		defer stopB()
		time.Sleep(3 * time.Second)
		// The instance can read its own record, and not the launch that is offered to it.
		l := state.Launch{ID: "1", Kind: state.KindApply, Created: time.Now(), Runs: []state.PlannedRun{{ID: "run-1", Task: "1"}},
			Offer: "b", OfferedAt: time.Now(), Definition: "same"}
		runner, err := state.Read[state.Runner](t.Context(), c, state.RunnerKey("b"))
		if err == nil {
			_, err = newer.Apply(t.Context(), state.Create(state.LaunchKey("1"), state.Encode(l)))
		}
		if err == nil {
			_, err = c.Apply(t.Context(), linger.Write(runner, "1"))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(linger.OfferFor - time.Second)
		if rec, err := newer.Get(t.Context(), state.LaunchKey("1")); err != nil || bytes.Contains(rec.Value, []byte(`"taker"`)) || b.Room() != 2 {
			t.Errorf("the launch is %s (%v), and the instance has room for %d runs", rec.Value, err, b.Room())
		}
		a, stopA := c.instanceOn(newer, "a", same)
		defer stopA()
		stopSharing := a.Share(t.Context(), newer.Apply)
		if err := a.Start(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		time.Sleep(linger.OfferFor)
		if by := c.by(); by["a"] != 1 || by["b"] != 0 {
			t.Errorf("they carry out %v", by)
		}
		stopSharing()
		// Under a leader of its own version, the instance takes launches again.
		d, stopD := c.instance("d", "same")
		defer stopD()
		time.Sleep(3 * time.Second)
		defer d.Share(t.Context(), c.Apply)()
		time.Sleep(3 * time.Second)
		c.launch(d, "2", "3", "4")
		time.Sleep(3 * time.Second)
		if by := c.by(); by["b"] != 1 || by["d"] != 2 {
			t.Errorf("then they carry out %v", by)
		}
	})
}

func TestShared_OlderLeaderGivesLaunchesToInstancesOfItsVersionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, stopA := c.instance("a", "same")
		defer stopA()
		_, stopB := c.instanceOn(upgraded{c}, "b", same)
		defer stopB()
		_, stopC := c.instance("c", "same")
		defer stopC()
		time.Sleep(3 * time.Second)
		defer a.Share(t.Context(), c.Apply)()
		time.Sleep(3 * time.Second)
		c.launch(a, "1", "2", "3", "4", "5")
		time.Sleep(5 * time.Second)
		if by := c.by(); by["a"] != 2 || by["b"] != 0 || by["c"] != 2 {
			t.Errorf("they carry out %v", by)
		}
		if why, err := a.Unreached(t.Context(), "b"); err != nil || why != "that instance works with another version of Terrapulse" {
			t.Errorf("the newer instance cannot be reached: %q, %v", why, err)
		}
		time.Sleep(time.Minute)
		if by := c.by(); by["a"]+by["c"] != 5 {
			t.Errorf("they carried out %v", by)
		}
	})
}

func TestShared_OfferToAnInstanceThatIsUpgradedMeanwhileIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		stopped := state.Runner{ID: "b", Definition: "same", Parallel: 2, Room: 2, Since: time.Now(), Until: time.Now().Add(time.Hour)}
		if _, err := c.Apply(t.Context(), state.Create(state.RunnerKey("b"), state.Encode(stopped))); err != nil {
			t.Fatal(err)
		}
		a, stopA := c.instance("a", "same")
		defer stopA()
		defer a.Share(t.Context(), c.Apply)()
		time.Sleep(3 * time.Second)
		c.launch(a, "1", "2", "3")
		time.Sleep(2 * time.Second)
		if to := c.launchOf("3").Offer; to != "b" {
			t.Fatalf("launch 3 is offered to %q", to)
		}
		_, stopB := c.instanceOn(upgraded{c}, "b", func() string { return "other" }) // its files were changed, too: else it takes the launch
		defer stopB()
		time.Sleep(2 * time.Second)
		if !c.isNewer(state.RunnerKey("b")) {
			t.Fatal("the upgraded instance has not announced itself")
		}
		time.Sleep(linger.OfferFor + 10*time.Second)
		if by := c.by(); by["a"] != 3 {
			t.Errorf("they carried out %v", by)
		}
		if !c.isNewer(state.RunnerKey("b")) {
			t.Error("the older leader has removed or changed the record of the newer instance")
		}
	})
}
