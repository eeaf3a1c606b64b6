package state

import (
	"context"
	"errors"
	"slices"
)

// Several is a store that reads records by their keys in few requests.
type Several interface {
	// GetSeveral returns those of the records that exist, by key. The keys are sorted, and each is there
	// once. As a list, the answer is no snapshot.
	GetSeveral(ctx context.Context, keys []string) (map[string]Record, error)
}

// GetSeveral is that of the store. From a store that is not Several it reads one record after the other.
func GetSeveral(ctx context.Context, s Store, keys []string) (map[string]Record, error) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, key := range keys {
		if err := ValidateKey(key); err != nil {
			return nil, err
		}
	}
	if several, ok := s.(Several); ok && len(keys) > 1 {
		return several.GetSeveral(ctx, keys)
	}
	records := make(map[string]Record, len(keys))
	for _, key := range keys {
		rec, err := s.Get(ctx, key)
		switch {
		case err == nil:
			records[key] = rec
		case !errors.Is(err, ErrNotFound):
			return nil, err
		}
	}
	return records, nil
}

// ReadSeveral reads records by their keys, also those that do not exist, and those that are corrupt: their
// data is empty.
func ReadSeveral[T any](ctx context.Context, s Store, keys []string) (map[string]Stored[T], map[string]*CorruptError, error) {
	records, err := GetSeveral(ctx, s, keys)
	if err != nil {
		return nil, nil, err
	}
	all, corrupt := make(map[string]Stored[T], len(keys)), map[string]*CorruptError{}
	for _, key := range keys {
		rec, there := records[key]
		if !there {
			all[key] = Stored[T]{Record: Record{Key: key}}
			continue
		}
		stored, err := Decode[T](rec)
		if wrong, ok := errors.AsType[*CorruptError](err); ok {
			stored, corrupt[key] = Stored[T]{Record: wrong.Record}, wrong
		} else if err != nil {
			return nil, nil, err
		}
		all[key] = stored
	}
	return all, corrupt, nil
}
