package stack

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/aws/tableapi"
	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// User is who uses the API of a stack without an address for it, and with what.
type User struct {
	Name string // as this machine says; AWS proves only who sends a request to an address
	Log  *slog.Logger
}

// API returns a client of the stack's HTTP API: at its address or, if it was deployed
// without one (Api=none), in this process. The user then needs the rights of functions/api.
func (s *Stack) API(ctx context.Context, user User) (*apiclient.Client, error) {
	if url := s.outputs["ApiUrl"]; url != "" {
		return apiclient.New(apiclient.Options{Address: url})
	}
	place, err := s.place(ctx)
	if err != nil {
		return nil, err
	}
	location, err := s.Output("BundleUrl")
	if err != nil {
		return nil, err
	}
	bundles, err := s3url.Parse(location)
	if err != nil {
		return nil, err
	}
	function, err := s.Output("ReconcileFunction")
	if err != nil {
		return nil, err
	}
	store, err := place.Change(ctx)
	if err != nil {
		return nil, err
	}
	handler := tableapi.New(tableapi.Options{
		AWS: s.aws, Store: store, Table: place.Where, Bundle: bundles, ReconcileFunction: function,
		Console: s.console(),
		Log:     user.Log,
	})
	// Roles have no effect on those who may write to the table.
	by := access.Caller{Identity: identity.Identity{Name: identity.Claimed(user.Name)}, Rights: roles.Everything()}
	return apiclient.Local(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(access.With(r.Context(), by)))
	})), nil
}
