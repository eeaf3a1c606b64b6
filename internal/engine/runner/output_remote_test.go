package runner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// bucket keeps output outside of the store.
type bucket map[string]string

func (b bucket) Save(_ context.Context, _, name string, output []byte, _ time.Time) (string, error) {
	b[name] = string(output)
	return "s3://logs/" + name, nil
}

func (b bucket) load(_ context.Context, url string) ([]byte, error) {
	text, ok := b[url[len("s3://logs/"):]]
	if !ok {
		return nil, errors.New("no such object")
	}
	return []byte(text), nil
}

// All steps of a run whose work a remote run does have one output.
func TestRemote_OutputOfARunHasAllItsSteps(t *testing.T) {
	for name, test := range map[string]struct {
		logs  bucket
		reads bool
		want  string
	}{
		"in the store":                         {nil, false, "created\nplanned\napplied\n"},
		"elsewhere":                            {bucket{}, true, "created\nplanned\napplied\n"},
		"elsewhere, where it cannot read them": {bucket{}, false, "applied\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b, s, _ := newSteps(t)
			if test.logs != nil {
				b.Logs = test.logs
			}
			if test.reads {
				b.Printed = test.logs.load
			}
			continued := false
			prints := func(text string, err error, all ...state.Remote) {
				t.Helper()
				s.next = func(ctx context.Context, job driver.Job) (*state.Changes, error) {
					s.record(ctx, job, all...)
					continued = job.Continued
					fmt.Fprintln(job.Output, text)
					return nil, err
				}
				if err := b.run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			first := upload("r1", "cv-1")
			prints("created", &driver.WaitError{Wait: state.Wait{For: state.WaitRemotePlan}}, first, begun(first, "run-1", state.RemotePlanning))
			b.resumeAs(state.RemoteReady)
			prints("planned", &driver.WaitError{Wait: state.Wait{For: state.WaitRemote}}, begun(first, "run-1", state.RemoteApplying))
			b.resumeAs(state.RemoteEnded)
			prints("applied", nil)
			run := b.stored("r1")
			text, err := run.PrintedTo().Load(t.Context(), b.store, "web", test.logs.load)
			if err != nil || string(text) != test.want || run.Logs != len(text) || continued != (len(text) > 8) {
				t.Errorf("the output of the run is %q (%v), %d bytes; the driver continues: %v", text, err, run.Logs, continued)
			}
		})
	}
}
