package simulate

import (
	"strings"
	"time"
)

// weather is how likely which fault is in a history, in thousandths. Every
// history has its own, for what never happens gives room to what else may.
type weather struct {
	dies       [2]int // before a request has reached its place, and after
	refused    [places + 1]int
	lost       [places + 1]int // the answer, after the effect
	late       [places + 1]int // the effect, after the one who asked has given up
	ops        map[string]int  // refused, by operation: one may fail while all others work
	unread     int             // a view
	stale      int             // a read of Consul
	still      int             // a change that no gate tells of
	skew       time.Duration
	lag        time.Duration // of what ECS shows
	memory     time.Duration // of ECS for client tokens
	torn       int           // a list, read in two
	cuts       int           // from the network, of what could be one
	slow       int           // in hundredths: how often Terraform does not come on
	awake      int           // in hundredths: how often claims are renewed while time passes
	freezes    int           // of what could be one
	locks      bool          // of states
	unsaved    int           // states that the backend does not take
	jumps      int           // of clocks, of what could be one
	unreported int           // ends of containers that no event reports
	storm      bool          // processes are left alone, and given up
	frost      bool          // instances are frozen in the midst of a run, until others take over
	long       bool          // the history is longer than usual
	people     int           // how often somebody asks for something
	replaces   int           // how often Consul is replaced, in a history with rules
	there      int           // how often somebody does something in HCP Terraform
}

// operations are those that may fail by themselves.
var operations = []string{"status", "start", "observe", "poll", "snapshot", "claim", "lead", "read the pointer", "keep"}

// operation returns which of the operations a request is; "" if it is another.
func operation(label string) string {
	for _, op := range operations {
		if strings.HasPrefix(label, op) {
			return op
		}
	}
	return ""
}

// trouble reports whether a request has come to a bad end.
func (w *world) trouble(r *request) bool {
	switch t := w.weather; {
	case !w.faults || r.to == terraform && !w.chance(100):
		return false
	case w.chance(t.dies[0]):
		r.answer <- errDead
		r.of.kill("before " + r.label)
	case w.chance(t.dies[1]):
		w.note("%s: %s, its last", r.of.name, r.label)
		r.effect()
		r.answer <- errDead
		r.of.kill("after " + r.label)
	case r.to == terraform:
		return false
	case w.chance(t.ops[operation(r.label)]), w.chance(t.refused[r.to]):
		w.note("%s: %s, refused", r.of.name, r.label)
		r.answer <- errRefused
	case w.chance(t.late[r.to]):
		w.note("%s: %s, adrift", r.of.name, r.label)
		w.adrift = append(w.adrift, r)
		r.answer <- errLost
	case w.chance(t.lost[r.to]):
		w.note("%s: %s, answer lost", r.of.name, r.label)
		r.effect()
		r.answer <- errLost
	default:
		return false
	}
	return true
}

// drawWeather draws how likely which fault is.
func (w *world) drawWeather() weather {
	rate := func(rates ...int) int { return rates[w.rng.IntN(len(rates))] }
	t := weather{ops: map[string]int{},
		dies: [2]int{rate(0, 2, 10), rate(0, 2, 10)},
		skew: time.Duration(rate(0, 10, 30)) * clocksApart / 30, lag: time.Duration(rate(0, 3, 20)) * time.Second,
		memory: time.Duration(rate(1, 24)) * time.Hour,
		unread: rate(0, 50, 200), stale: rate(0, 50), still: rate(0, 500), torn: rate(0, 200),
		cuts: rate(0, 300, 1000), slow: rate(50, 95), people: rate(0, 10, 30),
	}
	if *forgetful {
		t.memory = time.Duration(rate(0, 2, 60)) * time.Minute
	}
	t.awake = rate(0, 50, 100)
	for _, op := range operations {
		if w.rng.IntN(12) == 0 {
			t.ops[op] = rate(300, 700, 950)
		}
	}
	t.jumps, t.freezes, t.unreported, t.long = rate(0, 0, 500), rate(0, 0, 300), rate(0, 100, 300), w.rng.IntN(8) == 0
	t.locks, t.unsaved = w.rng.IntN(2) == 0, rate(0, 0, 300)
	if w.rng.IntN(5) == 0 { // Terraform takes long, and nobody can say whether its process lives
		t = weather{ops: map[string]int{"status": rate(300, 700, 950)}, skew: t.skew, lag: t.lag, memory: t.memory, awake: t.awake,
			storm: true, locks: t.locks, long: true, unreported: rate(0, 900), dies: [2]int{0, rate(0, 5)}, slow: 97, cuts: 1000, freezes: rate(0, 1000)}
		return t
	}
	if w.rng.IntN(8) == 0 {
		t = weather{ops: map[string]int{}, memory: t.memory, locks: t.locks, frost: true, awake: 100, slow: 50, unsaved: rate(0, 300)}
		return t
	}
	for p := range places {
		t.refused[p], t.lost[p], t.late[p] = rate(0, 20, 60), rate(0, 20, 60), rate(0, 10, 30)
	}
	return t
}
