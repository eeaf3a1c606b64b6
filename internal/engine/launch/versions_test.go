package launch

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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

// An instance of a newer version works with other records: see instance.works.
func newer() string { return "same, in the next format" }

func TestShared_OlderInstanceTakesNothingOfANewerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, stopA := c.instanceOn(upgraded{c}, "a", newer)
		defer stopA()
		_, stopB := c.instance("b", "same")
		defer stopB()
		_, stopD := c.instanceOn(upgraded{c}, "d", newer)
		defer stopD()
		time.Sleep(3 * time.Second)
		defer a.Share(t.Context(), upgraded{c}.Apply)()
		time.Sleep(3 * time.Second)
		c.launch(a, "1", "2", "3", "4", "5")
		time.Sleep(3 * time.Second)
		if by := c.by(); by["a"] != 2 || by["b"] != 0 || by["d"] != 2 || !c.isNewer(state.OpenKey("5")) {
			t.Errorf("they carry out %v", by)
		}
		time.Sleep(time.Minute)
		if by := c.by(); by["a"]+by["d"] != 5 {
			t.Errorf("they carried out %v", by)
		}
	})
}

func TestShared_NewerInstanceTakesNothingOfAnOlderLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, stopA := c.instance("a", "same")
		defer stopA()
		_, stopB := c.instanceOn(upgraded{c}, "b", newer)
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
		if !c.isNewer(state.RunnerKey("b")) {
			t.Error("the older leader has removed or changed the record of the newer instance")
		}
	})
}
