package terraformcli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// StateMark identifies a state without holding its values, which may be secret.
// The zero value means no state.
type StateMark struct {
	Lineage string `json:"lineage,omitempty"`
	Serial  uint64 `json:"serial,omitempty"`
	// Objects are the digests of the managed objects: address and attributes. They
	// are sorted.
	Objects []string `json:"objects,omitempty"`
}

// None reports whether it is the mark of no state. A plan creates the workspace, and with it an empty
// state: that is still none.
func (m StateMark) None() bool {
	return m.Lineage == "" || m.Serial <= 1 && len(m.Objects) == 0
}

// markOf returns the mark of a state as Terraform writes it.
func markOf(state []byte) (StateMark, error) {
	if len(bytes.TrimSpace(state)) == 0 {
		return StateMark{}, nil
	}
	if isEncrypted(state) {
		return StateMark{}, errors.New("read a state: OpenTofu has encrypted it")
	}
	var s struct {
		Lineage   string
		Serial    uint64
		Resources []struct {
			Module, Mode, Type, Name string
			Instances                []struct {
				IndexKey       json.RawMessage `json:"index_key"`
				Attributes     json.RawMessage `json:"attributes"`
				AttributesFlat json.RawMessage `json:"attributes_flat"`
			}
		}
	}
	if err := json.Unmarshal(state, &s); err != nil {
		return StateMark{}, fmt.Errorf("read a state of Terraform: %w", err)
	}
	mark := StateMark{Lineage: s.Lineage, Serial: s.Serial}
	var text bytes.Buffer
	for _, r := range s.Resources {
		if r.Mode != "managed" {
			continue // data sources are read again by every apply
		}
		for _, i := range r.Instances {
			text.Reset()
			fmt.Fprintf(&text, "%q %q %q ", r.Module, r.Type, r.Name)
			for _, part := range []json.RawMessage{i.IndexKey, i.Attributes, i.AttributesFlat} {
				if len(part) > 0 {
					if err := json.Compact(&text, part); err != nil {
						return StateMark{}, fmt.Errorf("read a state of Terraform: %w", err)
					}
				}
				text.WriteByte('\n')
			}
			sum := sha256.Sum256(text.Bytes())
			mark.Objects = append(mark.Objects, hex.EncodeToString(sum[:16]))
		}
	}
	slices.Sort(mark.Objects)
	return mark, nil
}

// isState reports whether a file is a whole state.
func isState(raw []byte) bool {
	var s struct{ Version int }
	return json.Unmarshal(raw, &s) == nil && s.Version > 0 || isEncrypted(raw)
}

// isEncrypted reports whether a file is a whole state that OpenTofu has encrypted.
func isEncrypted(raw []byte) bool {
	var s struct {
		Version string `json:"encryption_version"`
	}
	return json.Unmarshal(raw, &s) == nil && s.Version != ""
}

// StateID returns the ID of a state as Terraform writes it.
func StateID(state []byte) (string, error) {
	mark, err := markOf(state)
	if err != nil {
		return "", err
	}
	return mark.ID(), nil
}

// ID tells the state from others.
func (m StateMark) ID() string {
	sum := sha256.Sum256([]byte(strings.Join(m.Objects, " ")))
	return fmt.Sprintf("%s/%d/%s", m.Lineage, m.Serial, hex.EncodeToString(sum[:8]))
}

// Holds reports whether the task's state in the backend is the one with this ID.
func (d *Dir) Holds(ctx context.Context, id string) (bool, error) {
	raw, err := d.current(ctx)
	if err != nil {
		return false, err
	}
	mark, err := markOf(raw)
	return err == nil && mark.ID() == id, nil
}

// Managed returns how many objects the task's state in the backend has.
func (d *Dir) Managed(ctx context.Context) (int, error) {
	raw, err := d.current(ctx)
	if err != nil {
		return 0, err
	}
	mark, err := markOf(raw)
	return len(mark.Objects), err
}

// Replaceable reports whether the state left by an apply can replace the backend's
// state: that is still the one from which the apply began, or one that the same apply
// has saved (every 20 seconds). A state of another writer has an object that the
// apply neither found nor made, or lacks one that the apply has kept.
func Replaceable(began, now, left StateMark) bool {
	if len(now.Objects) == 0 {
		return len(began.Objects) == 0 // otherwise it was emptied or removed
	}
	if now.Lineage != left.Lineage || now.Serial >= left.Serial || now.Serial < began.Serial {
		return false
	}
	if now.Serial == began.Serial {
		return slices.Equal(now.Objects, began.Objects)
	}
	foreign := func(object string) bool { return !left.has(object) && !began.has(object) }
	lacking := func(object string) bool { return left.has(object) && !now.has(object) }
	return !slices.ContainsFunc(now.Objects, foreign) && !slices.ContainsFunc(began.Objects, lacking)
}

func (m StateMark) has(object string) bool {
	_, found := slices.BinarySearch(m.Objects, object)
	return found
}
