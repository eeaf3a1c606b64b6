package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Refusals keeps attempts that were refused because somebody does not have a role. Only those of
// proven identities are kept, and of each identity one for each role and hour: a record beside the entry
// says so to every process. Nobody can fill the store with attempts.
type Refusals struct {
	mu   sync.Mutex
	kept map[string]time.Time // hour in which an entry was written, by identity and role
}

// Keep writes an entry unless there is one already. what says what the sender tried.
func (r *Refusals) Keep(ctx context.Context, s state.Store, role, task, what string, now time.Time) error {
	a := Of(ctx)
	if !a.Proven() {
		return nil
	}
	hour := now.UTC().Truncate(time.Hour)
	sum := sha256.Sum256([]byte(a.Name + "\n" + role))
	suffix := hex.EncodeToString(sum[:6])
	if !r.first(suffix, hour) {
		return nil
	}
	e := Entry{Action: Refused, Task: state.CutTo(state.Line(task), 200), Detail: what}.of(a, a.Name, now, suffix)
	once := state.Create(fmt.Sprintf("refusal/%d-%s", hour.Unix(), suffix), state.Encode(e.ID)).Until(hour.Add(time.Hour))
	_, err := s.Apply(ctx, e.change(ctx), once)
	if err == nil || errors.As(err, new(*state.ConflictError)) {
		return nil
	}
	return fmt.Errorf("keep that %s was refused: %w", a.Name, err)
}

// most is how many identities and roles are remembered.
const most = 10_000

// first reports whether nothing was kept in this hour, as far as this process knows.
func (r *Refusals) first(who string, hour time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil || len(r.kept) > most {
		r.kept = map[string]time.Time{}
	}
	if r.kept[who].Equal(hour) {
		return false
	}
	r.kept[who] = hour
	return true
}
