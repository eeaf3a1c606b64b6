package serve

import (
	"errors"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/people/openid"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// admit returns who sends a request, and reports whether it may continue. Otherwise, it has answered.
// The handler checks which role a request needs.
func (g *guard) admit(w *answer, r *http.Request) (c access.Caller, ok bool) {
	if g.isSigned(r) {
		return access.Caller{}, true
	}
	c, err := g.identify(r)
	reads := access.Reads(r.Method)
	var down *openid.DownError
	switch {
	case g.open(r) && reads && (errors.Is(err, errNoToken) || err == nil && !c.Rights.MayAny(roles.View)):
		return access.Caller{}, true
	case errors.Is(err, errNoToken) && g.signIn(w, r):
	case errors.As(err, &down):
		w.Header().Set("Retry-After", "5")
		w.refuse(r, http.StatusServiceUnavailable, err.Error())
	case errors.As(err, new(storeError)):
		w.refuse(r, http.StatusServiceUnavailable, err.Error()+": try again")
	case err != nil:
		w.Header().Set("WWW-Authenticate", `Bearer realm="terrapulse"`)
		w.refuse(r, http.StatusUnauthorized, g.explained(err))
	case !c.Rights.MayAny(roles.View) && (reads || !c.Proven()):
		w.refuse(r, http.StatusForbidden, c.NeedAny(roles.View).Error())
	case !reads && !c.Rights.Acts() && !c.Proven():
		w.refuse(r, http.StatusForbidden, errNoIdentity)
	case !reads && !c.Rights.Acts():
		w.refuse(r, http.StatusForbidden, g.refusal(r, c).Error())
	default:
		return c, true
	}
	return access.Caller{}, false
}

// refusal says which role somebody lacks who may change nothing.
func (g *guard) refusal(r *http.Request, c access.Caller) error {
	if g.refuse != nil {
		if err := g.refuse(r.WithContext(access.With(r.Context(), c))); err != nil {
			return err
		}
	}
	return c.NeedAny(roles.Operate)
}

// explained adds to an error that people can sign in here.
func (g *guard) explained(err error) string {
	if errors.Is(err, errNoToken) && g.people != nil {
		return err.Error() + "; or sign in with `terrapulse login`"
	}
	return err.Error()
}

// identify returns who sends a request, with their rights. The error is errNoToken if it needs to say
// more of itself.
func (g *guard) identify(r *http.Request) (access.Caller, error) {
	policy := g.policy()
	tokens := len(g.tokens.all) > 0
	if tokens || policy.Set() {
		_, page := g.onPage(r)
		header := r.Header.Get("Authorization")
		// A proxy in front of the pages may have a password of its own in that header.
		token, ok := bearer(header)
		if ok && g.people != nil && openid.IsToken(token) {
			who, err := g.verify(r, token)
			return callerOf(who, policy), err
		}
		if ok || header != "" && !page {
			c, _, err := g.byToken(r, token, policy)
			return c, err
		}
		if page {
			if c, err := g.bySession(r, policy); !errors.Is(err, errNoToken) {
				return c, err
			}
		}
		if !policy.Set() {
			return access.Caller{}, errNoToken
		}
	}
	c := g.byConnection(r, policy, tokens)
	if policy.Set() && !c.Proven() && (!c.Rights.MayAny(roles.View) || !c.Rights.Acts() && !access.Reads(r.Method)) {
		return c, errNoToken
	}
	return c, nil
}

// byConnection returns who sends a request by its connection: the client's certificate or, without
// tokens, the machine that it comes from. Without grants, who has a certificate or is on this machine may
// do everything, and everybody else may view, as in Consul-Terraform-Sync.
func (g *guard) byConnection(r *http.Request, policy roles.Policy, tokens bool) access.Caller {
	c := access.Caller{Identity: identity.Identity{Name: access.Address(middleware.Host(r.RemoteAddr)), Proof: identity.None}}
	switch verified := r.TLS != nil && len(r.TLS.VerifiedChains) > 0; {
	case verified:
		c.Identity = identity.OfCertificate(r.TLS.PeerCertificates[0])
	case !tokens && g.onThisMachine(r):
		c.Proof = identity.Local
	}
	switch {
	case c.Proof == identity.Local:
		c.Rights = roles.Everything()
	case policy.Set():
		c = callerOf(c.Identity, policy)
	case c.Proven():
		c.Rights = roles.Everything()
	default:
		c.Rights = roles.Viewing()
	}
	return c
}
