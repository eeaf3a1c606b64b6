package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/base/fault"
)

// Format is the version of the format of the records that this program writes.
// It is in every record, whatever the store, and is increased when an older
// program would misread or damage what a newer one writes.
const Format = 1

// NewerError is a record that a newer version of Terrapulse has written. It is not
// corrupt: this process must neither change nor remove it.
type NewerError struct {
	Key    string
	Format int // of the record
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("record %s in the store was written by a newer version of Terrapulse (format %d, this one knows up to %d): upgrade this process to that version",
		e.Key, e.Format, Format)
}

// Fault implements fault.Error.
func (e *NewerError) Fault() fault.Kind { return fault.Person }

// stamp begins the value of every record.
var stamp = fmt.Appendf(nil, `{"format":%d`, Format)

// Encode returns the stored form of a record.
func Encode(data any) []byte {
	value, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", data, err)) // only plain structs are stored
	}
	rest := value[1:]
	if len(rest) > 1 {
		rest = append([]byte{','}, rest...)
	}
	return append(bytes.Clone(stamp), rest...)
}

// Decode returns what a record says. The error is a *CorruptError or a *NewerError.
func Decode[T any](rec Record) (Stored[T], error) {
	out := Stored[T]{Record: rec}
	if err := checkFormat(rec); err != nil {
		return out, err
	}
	err := json.Unmarshal(rec.Value, &out.Data)
	if checked, ok := any(&out.Data).(interface{ check() error }); ok && err == nil {
		err = checked.check()
	}
	if err != nil {
		return out, &CorruptError{rec, err}
	}
	out.Record.Value = nil // it is in Data now
	return out, nil
}

// checkFormat returns a *NewerError if the record has a newer format. The format
// is read alone: nothing else of a newer record may be relied on.
func checkFormat(rec Record) error {
	if rest, ok := bytes.CutPrefix(rec.Value, stamp); ok && len(rest) > 0 && (rest[0] == ',' || rest[0] == '}') {
		return nil
	}
	var is struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(rec.Value, &is); err != nil {
		return &CorruptError{rec, err}
	}
	if is.Format > Format {
		return &NewerError{rec.Key, is.Format}
	}
	return nil
}

// check reports a run that no version of Terrapulse writes.
func (r *Run) check() error {
	if err := r.Kind.check(); err != nil {
		return err
	}
	if !r.State.Ended() && !r.State.Active() && r.State != RunWaiting {
		return fmt.Errorf("%q is not a state of a run", string(r.State))
	}
	if r.State == RunWaiting && r.Wait == nil {
		return errors.New("the run waits, but the record does not say for what")
	}
	return cmp.Or(r.Wait.check(), r.Remote.check())
}

func (l *Launch) check() error { return l.Kind.check() }

func (t *Task) check() error {
	return cmp.Or(t.Waits().check(), t.RemoteRun.check())
}

func (r *RemoteRun) check() error {
	switch {
	case r == nil, r.Phase == RemotePlanning, r.Phase == RemoteReady, r.Phase == RemoteApplying, r.Phase == RemoteEnded:
		return nil
	}
	return fmt.Errorf("%q is not a phase of a remote run", string(r.Phase))
}

func (w *Wait) check() error {
	if w == nil || waits[w.For].text != "" {
		return nil
	}
	return fmt.Errorf("%q is not something that a run can wait for", string(w.For))
}
