package state

import (
	"context"
	"slices"
	"strings"
)

// Backward is a store that reads the last records of a list without the others.
type Backward interface {
	// Last returns records whose keys begin with prefix and are less than before: the n last ones, the
	// last one first. before begins with prefix, or is "" for no limit.
	Last(ctx context.Context, prefix, before string, n int) ([]Record, error)
}

// Last is that of the store. A store that is not Backward reads and returns the whole list, also if that
// is more than n records.
func Last(ctx context.Context, s Store, prefix, before string, n int) ([]Record, error) {
	if b, ok := s.(Backward); ok {
		return b.Last(ctx, prefix, before, n)
	}
	all, err := s.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if before != "" {
		end, _ := slices.BinarySearchFunc(all, before, func(rec Record, key string) int { return strings.Compare(rec.Key, key) })
		all = all[:end]
	}
	slices.Reverse(all)
	return all, nil
}
