package consul

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/terrapulse/terrapulse/internal/condition"
)

// contents are what a view showed.
type contents struct {
	condition.Contents      // nil if the view does not exist
	filtered           bool // access control has hidden something
}

func (c contents) len() int {
	if c.Contents == nil {
		return 0
	}
	return c.Len()
}

// readView reads the view. What does not exist is empty. If access control has
// hidden everything, that is an error: with an empty view, what was made of it
// would be removed.
func (c *Client) readView(ctx context.Context, v condition.View) (contents, error) {
	var got contents
	r := request{Request: v.Request()}
	a, err := c.get(ctx, r, func(d *json.Decoder) (err error) {
		got.Contents, err = v.Decode(d)
		return err
	})
	if err != nil {
		return contents{}, err
	}
	if a.filtered && got.len() == 0 {
		return contents{}, &readError{act: r.Act, address: c.address, kind: forbidden,
			cause:  errors.New("access control has hidden everything"),
			advice: c.lacks(r.Needs)}
	}
	got.filtered = a.filtered
	return got, nil
}
