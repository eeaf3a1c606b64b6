package consultest

import (
	"slices"
	"time"

	"github.com/hashicorp/consul/api"
)

// Importer is the name that an exporting server has for the one that imports.
const Importer = "importer"

// WithPeering lets the server be a peer of another one.
func WithPeering() Option {
	return func(s *Server) {
		s.peering = true
		WithHCL("connect { enabled = true }, peering { enabled = true }")(s)
	}
}

// ImportFrom establishes a peering: this server knows the other one by a name, and imports what
// it exports to Importer. It returns before anything is imported.
func (s *Server) ImportFrom(other *Server, name string) {
	s.t.Helper()
	s.Eventually("the peering is established", func() error {
		token, _, err := other.Client().Peerings().GenerateToken(s.t.Context(), api.PeeringGenerateTokenRequest{PeerName: Importer}, nil)
		if err != nil {
			return err
		}
		_, _, err = s.Client().Peerings().Establish(s.t.Context(), api.PeeringEstablishRequest{PeerName: name, PeeringToken: token.PeeringToken}, nil)
		return err
	})
}

// EndPeering deletes a peering, and waits until its data is gone here.
func (s *Server) EndPeering(name string) {
	s.t.Helper()
	if _, err := s.Client().Peerings().Delete(s.t.Context(), name, nil); err != nil {
		s.t.Fatal(err)
	}
	s.Eventually("the peering is deleted", func() error {
		p, _, err := s.Client().Peerings().Read(s.t.Context(), name, nil)
		if err == nil && p != nil {
			return errStill
		}
		return err
	})
}

// Export exports these services, and no others, to Importer.
func (s *Server) Export(names ...string) {
	s.t.Helper()
	if len(names) == 0 {
		if _, err := s.Client().ConfigEntries().Delete(api.ExportedServices, "default", nil); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	e := &api.ExportedServicesConfigEntry{Name: "default"}
	for _, name := range names {
		e.Services = append(e.Services, api.ExportedService{Name: name, Consumers: []api.ServiceConsumer{{Peer: Importer}}})
	}
	if _, _, err := s.Client().ConfigEntries().Set(e, nil); err != nil {
		s.t.Fatal(err)
	}
}

// Imported waits until a peer's service has so many instances here.
func (s *Server) Imported(peer, service string, instances int) {
	s.t.Helper()
	s.Eventually("the instances of "+service+" are imported", func() error {
		all, _, err := s.Client().Health().Service(service, "", false, &api.QueryOptions{Peer: peer})
		if err == nil && len(all) != instances {
			return errStill
		}
		return err
	})
}

// PeeringState waits until a peering is in a state.
func (s *Server) PeeringState(peer, state string) {
	s.t.Helper()
	s.Eventually("the peering is "+state, func() error {
		p, _, err := s.Client().Peerings().Read(s.t.Context(), peer, nil)
		if err == nil && (p == nil || string(p.State) != state) {
			return errStill
		}
		return err
	})
}

type still struct{}

func (still) Error() string { return "it is not yet so" }

var errStill = still{}

// Eventually waits until a condition holds.
func (s *Server) Eventually(what string, holds func() error) {
	s.t.Helper()
	var err error
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	s.t.Fatalf("%s: %v\n%s", what, err, s.log())
}

// Token is the token with all rights; "" without access control.
func (s *Server) Token() string { return s.token }

// SameAs returns an error unless a server that imports a service has its instances with their ports.
func (s *Server) SameAs(importer *Server, peer, service string) error {
	ports := func(of *Server, q *api.QueryOptions) (all []int, err error) {
		instances, _, err := of.Client().Health().Service(service, "", false, q)
		for _, i := range instances {
			all = append(all, i.Service.Port)
		}
		slices.Sort(all)
		return all, err
	}
	there, err := ports(s, nil)
	if err != nil {
		return err
	}
	if here, err := ports(importer, &api.QueryOptions{Peer: peer}); err != nil || !slices.Equal(here, there) {
		return errStill
	}
	return nil
}
