package simulate

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

var (
	histories = flag.Uint64("histories", 0, "number of histories; 0 means 200, 500 in make test-all, or 30 with -short")
	atMost    = flag.Duration("for", 0, "create histories for this time")
	firstSeed = flag.Uint64("seed", 1, "`seed` of the first history; the others follow")
	stride    = flag.Uint64("stride", 0, "distance of the seeds, in this process; 0 uses all cores")
	forgetful = flag.Bool("forgetful", false, "ECS forgets client tokens within minutes, so that a launch has several containers")
	traced    = flag.Bool("trace", false, "print one history step by step")
)

func TestMain(m *testing.M) {
	flag.Parse()
	summary.ChangesAtOnce = 6 // a process may die between the writes of a fold
	// One goroutine moves at a time: more processors would only hand it around.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(1000) // a history leaves little behind
	os.Exit(m.Run())
}

// tally is the result of many histories.
type tally struct {
	Histories uint64
	Applies   int
	Longest   time.Duration // until all was applied after the faults
	Seed      uint64        // of the first history that was broken
	Broken    string        // what was wrong with it
	Steps     string        // the file that has it step by step
}

func (a *tally) add(b tally) {
	a.Histories += b.Histories
	a.Applies += b.Applies
	a.Longest = max(a.Longest, b.Longest)
	if b.Broken != "" && (a.Broken == "" || b.Seed < a.Seed) {
		a.Seed, a.Broken, a.Steps = b.Seed, b.Broken, b.Steps
	}
}

// work creates n histories, whose seeds have a distance of step, until one is broken.
func work(t *testing.T, first, step, n uint64, until time.Time) tally {
	var all tally
	for seed := first; all.Histories < n && (until.IsZero() || time.Now().Before(until)); seed += step {
		var steps bytes.Buffer
		trace := func(format string, args ...any) { fmt.Fprintf(&steps, format+"\n", args...) }
		if *traced {
			trace = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
		}
		out := history(t, seed, trace)
		one := tally{Histories: 1, Applies: out.applies, Longest: out.settled, Seed: seed, Broken: out.broken}
		if out.broken != "" && !*traced {
			one.Steps = kept(t, seed, steps.Bytes())
		}
		if all.add(one); out.broken != "" {
			break
		}
	}
	return all
}

// kept writes a history to a file: outside of AWS, its seed may make another one next time.
func kept(t *testing.T, seed uint64, steps []byte) (file string) {
	t.Helper()
	file = filepath.Join(os.TempDir(), fmt.Sprintf("terrapulse-history-%d.txt", seed))
	if err := os.WriteFile(file, steps, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestNoHistoryBreaksWhatMustAlwaysHold(t *testing.T) { simulates(t, *firstSeed) }

func TestNoHistoryWithHCPTerraformBreaksWhatMustAlwaysHold(t *testing.T) {
	if *firstSeed >= documentSeeds || *traced || *stride > 0 {
		t.Skip("this seed alone is meant")
	}
	simulates(t, remoteSeeds+*firstSeed)
}

func TestNoHistoryWithAThirdDriverBreaksWhatMustAlwaysHold(t *testing.T) {
	if *firstSeed >= documentSeeds || *traced || *stride > 0 {
		t.Skip("this seed alone is meant")
	}
	simulates(t, thirdSeeds+*firstSeed)
}

func TestNoHistoryInWhichFeaturesMeetBreaksWhatMustAlwaysHold(t *testing.T) {
	if *firstSeed >= orderSeeds || *traced || *stride > 0 {
		t.Skip("this seed alone is meant")
	}
	simulates(t, crossingSeeds+*firstSeed)
}

func TestNoHistoryWithDocumentsBreaksWhatMustAlwaysHold(t *testing.T) {
	if *firstSeed >= documentSeeds || *traced || *stride > 0 {
		t.Skip("this seed alone is meant")
	}
	simulates(t, documentSeeds+*firstSeed)
}

// simulates creates histories from a seed on.
func simulates(t *testing.T, first uint64) {
	n, until, limit := *histories, time.Time{}, *atMost
	if first != *firstSeed || *stride == 0 && first < crossingSeeds { // the other kinds of histories have their part of the time
		limit /= kinds
	}
	switch {
	case *traced:
		n = 1
	case *atMost > 0:
		n, until = 1<<62, time.Now().Add(limit)
	case n == 0 && testing.Short():
		n = 30
	case n == 0 && !testtools.All(): // .ci/run also makes thousands without the race detector
		n = 200
	case n == 0:
		n = 500
	}
	if *histories == 0 && *atMost == 0 && !*traced && first >= crossingSeeds {
		if n /= 2; first < documentSeeds { // they take longer
			n /= 3
		}
	}
	if *stride > 0 { // for another process, which reads the tally
		all := work(t, first, *stride, n, until)
		line, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s%s\n", tallyMark, line)
		return
	}
	began := time.Now()
	var all tally
	if cores := runtime.NumCPU(); *traced || testing.Short() || cores == 1 {
		all = work(t, first, 1, n, until)
	} else {
		var err error
		if all, err = workers(uint64(cores), first, n, limit); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	t.Logf("%d histories from seed %d on in %s, %.0f a second; %d runs were applied; after the last fault it took %s at most until all was",
		all.Histories, first, took.Round(time.Millisecond), float64(all.Histories)/took.Seconds(), all.Applies, all.Longest)
	if all.Broken != "" {
		t.Errorf("seed %d: %s\nstep by step: %s, or make simulate SEED=%[1]d TRACE=1", all.Seed, all.Broken, cmp.Or(all.Steps, "above"))
	}
}

const tallyMark = "tally "

// kinds is how many kinds of histories share the time: each TestNoHistory… makes one.
const kinds = 8

// workers makes histories in as many processes, each with one core.
func workers(count, first, n uint64, limit time.Duration) (tally, error) {
	var (
		all  tally
		errs error
		mu   sync.Mutex
		wg   sync.WaitGroup
	)
	for i := range min(count, n) {
		wg.Go(func() {
			one, err := run(os.Args[0], "-histories", fmt.Sprint((n+count-1-i)/count), "-for", limit.String(),
				"-seed", fmt.Sprint(first+i), fmt.Sprintf("-forgetful=%v", *forgetful), "-stride", fmt.Sprint(count))
			mu.Lock()
			defer mu.Unlock()
			all.add(one)
			if err != nil {
				errs = err
			}
		})
	}
	wg.Wait()
	return all, errs
}

// run has a test binary of this package make histories.
func run(binary string, args ...string) (tally, error) {
	cmd := exec.Command(binary, append([]string{"-test.run=^TestNoHistoryBreaksWhatMustAlwaysHold$", "-test.timeout=0"}, args...)...)
	out, err := cmd.CombinedOutput()
	var all tally
	lines := bufio.NewReader(strings.NewReader(string(out)))
	for {
		line, lineErr := lines.ReadString('\n')
		if text, ok := strings.CutPrefix(line, tallyMark); ok {
			return all, json.Unmarshal([]byte(text), &all)
		}
		if lineErr == io.EOF {
			return all, fmt.Errorf("make histories: %w\n%s", err, out)
		}
	}
}

// Outside of AWS a seed may make another history: see doc.go.
func TestASeedMakesTheSameHistoryEachTime(t *testing.T) {
	n := uint64(40)
	switch {
	case testing.Short():
		n = 20
	case testtools.All():
		n = 100
	}
	different := map[uint64]bool{}
	seeds := make([]uint64, n)
	for i := range seeds {
		switch seeds[i] = uint64(i); i % 4 {
		case 1:
			seeds[i] += documentSeeds
		case 2:
			seeds[i] += crossingSeeds
		case 3:
			seeds[i] += remoteSeeds
		}
	}
	for _, seed := range seeds {
		first, second := history(t, seed, nil), history(t, seed, nil)
		if first.home == inAWS && first.events != second.events {
			t.Errorf("seed %d makes two histories", seed)
		}
		different[first.events] = true
	}
	if len(different) < int(n) {
		t.Errorf("%d seeds make %d histories", n, len(different))
	}
}
