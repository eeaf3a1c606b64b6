package api

import (
	"net/http"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// Refuse returns why a request is refused whose sender may change nothing. A server calls it before it
// reads the body. The error names the role that the operation needs, as that of the operation itself
// would, and the audit record has the attempt.
func (h *Handler) Refuse(r *http.Request) error {
	of := &asked{r: r, need: free}
	h.needs.ServeHTTP(of, r.WithContext(r.Context()))
	err := of.need.Check(by(r), of.r.PathValue("name"))
	if err == nil {
		return by(r).NeedAny(roles.Operate) // there is no such operation
	}
	h.noteRefused(h.acting(of.r), err)
	return err
}

// asked is an operation for which somebody has sent a request, with what it needs. To a multiplexer it
// is an answer, which nobody reads.
type asked struct {
	r    *http.Request // with the values of its path
	need access.Need
}

func noteNeed(need access.Need) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if of, ok := w.(*asked); ok {
			of.r, of.need = r, need
		}
	}
}

func (*asked) Header() http.Header         { return http.Header{} }
func (*asked) Write(p []byte) (int, error) { return len(p), nil }
func (*asked) WriteHeader(int)             {}
