package state

import (
	"context"
	"errors"
	"net/url"
	"time"
)

// InstancePrefix is the collection of the instances of a cluster.
const InstancePrefix = "cluster/"

// InstanceKey returns the key of the record of an instance.
func InstanceKey(id string) string { return InstancePrefix + url.QueryEscape(id) }

// Instance is what an instance of a cluster writes about itself.
type Instance struct {
	ID        string        `json:"id"`
	Address   string        `json:"address,omitempty"`
	Service   string        `json:"service"`
	Owner     string        `json:"owner"`
	Terraform string        `json:"terraform"`
	Version   string        `json:"version,omitempty"`
	Since     time.Time     `json:"since"`
	Seen      time.Time     `json:"seen"`   // by its own clock
	Silent    time.Duration `json:"silent"` // how long it may not be seen
	// Parts are the digests of what its files define, by the names that people read: config.Parts.
	Parts map[string]string `json:"parts,omitempty"`
}

// Lives reports whether the instance wrote its record in time.
func (i Instance) Lives(now time.Time) bool { return now.Sub(i.Seen) <= i.Silent }

// ReadPeers returns what other processes of a cluster have written about themselves below a prefix. Records that
// cannot be decoded, such as those of a newer version, are left out: they must not hide the others.
func ReadPeers[T any](ctx context.Context, s Store, prefix string) ([]Stored[T], error) {
	records, err := s.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	all := make([]Stored[T], 0, len(records))
	for _, rec := range records {
		stored, err := Decode[T](rec)
		switch {
		case err == nil:
			all = append(all, stored)
		case !errors.As(err, new(*CorruptError)) && !errors.As(err, new(*NewerError)):
			return nil, err
		}
	}
	return all, nil
}
