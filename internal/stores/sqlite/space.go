package sqlite

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/base/diskspace"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// leastSpace is how much space a few writes take, with the write-ahead log.
const leastSpace = 64 << 10

var _ state.Writable = (*Store)(nil)

// Unwritable implements state.Writable: the disk is full.
func (s *Store) Unwritable() error {
	free, known := diskspace.Free(s.path)
	if !known || free >= leastSpace {
		return nil
	}
	return fmt.Errorf("the store cannot be written: there is no space left on the disk of %s (%d KiB are free); free some space", s.path, free>>10)
}
