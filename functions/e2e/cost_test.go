//go:build linux

package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Prices are AWS's list prices in us-east-1, in dollars, on arm64, as they were
// in November 2026 to the knowledge of who wrote them down: without free tiers.
const (
	lambdaRequest  = 0.20 / 1e6
	lambdaGBSecond = 0.0000133334
	readUnit       = 0.125 / 1e6 // strongly consistent, of 4 KB
	writeUnit      = 0.625 / 1e6 // of 1 KB
	scheduleEvent  = 1.00 / 1e6
	fargateVCPU    = 0.03238 / 3600 // a second
	fargateGB      = 0.00356 / 3600 // a second
	objectPut      = 0.005 / 1000
	objectGet      = 0.0004 / 1000
	logGB          = 0.50
	metricMonth    = 0.30
	alarmMonth     = 0.10

	// What the template gives: MiB of the function, vCPU and GB of a container,
	// and how long Fargate takes, billed, to fetch an image and start it.
	functionGB   = 0.5
	containerCPU = 1.0
	containerGB  = 2.0
	fargateStart = 20 * time.Second

	month = 730 * time.Hour
)

// usage is what something has taken.
type usage struct {
	invocations  float64
	function     time.Duration
	reads        float64 // units
	writes       float64 // units
	gets, puts   float64 // of objects
	containers   float64
	container    time.Duration
	logBytes     float64
	scheduled    float64
	monthMetrics float64
	monthAlarms  float64
}

func (u usage) times(n float64) usage {
	u.invocations, u.reads, u.writes, u.gets, u.puts, u.containers = n*u.invocations, n*u.reads, n*u.writes, n*u.gets, n*u.puts, n*u.containers
	u.function, u.container = time.Duration(n*float64(u.function)), time.Duration(n*float64(u.container))
	u.logBytes, u.scheduled = n*u.logBytes, n*u.scheduled
	return u
}

func (u usage) plus(v usage) usage {
	u.invocations, u.reads, u.writes, u.gets, u.puts, u.containers = u.invocations+v.invocations, u.reads+v.reads, u.writes+v.writes, u.gets+v.gets, u.puts+v.puts, u.containers+v.containers
	u.function, u.container, u.logBytes, u.scheduled = u.function+v.function, u.container+v.container, u.logBytes+v.logBytes, u.scheduled+v.scheduled
	u.monthMetrics, u.monthAlarms = u.monthMetrics+v.monthMetrics, u.monthAlarms+v.monthAlarms
	return u
}

// items are what the usage costs, by what is paid for.
func (u usage) items() []item {
	return []item{
		{"Lambda", u.invocations*lambdaRequest + u.function.Seconds()*functionGB*lambdaGBSecond},
		{"EventBridge Scheduler", u.scheduled * scheduleEvent},
		{"DynamoDB", u.reads*readUnit + u.writes*writeUnit},
		{"Fargate", (u.container.Seconds() + u.containers*fargateStart.Seconds()) * (containerCPU*fargateVCPU + containerGB*fargateGB)},
		{"S3", u.gets*objectGet + u.puts*objectPut},
		{"CloudWatch Logs", u.logBytes / 1e9 * logGB},
		{"CloudWatch metrics and alarms", u.monthMetrics*metricMonth + u.monthAlarms*alarmMonth},
	}
}

type item struct {
	what    string
	dollars float64
}

func (u usage) dollars() float64 {
	sum := 0.0
	for _, i := range u.items() {
		sum += i.dollars
	}
	return sum
}

// taken is what the deployment has taken since reset.
func (c *cloud) taken() usage {
	c.lambda.mu.Lock()
	u := usage{invocations: float64(c.lambda.invocations), function: c.lambda.billed}
	c.lambda.mu.Unlock()
	c.mu.Lock()
	u.containers, u.container = float64(c.started), c.ran
	c.mu.Unlock()
	c.dynamo.mu.Lock()
	u.reads, u.writes = c.dynamo.reads, c.dynamo.writes
	c.dynamo.mu.Unlock()
	for operation, n := range c.s3.passed() {
		if strings.HasPrefix(operation, "GET") || strings.HasPrefix(operation, "HEAD") {
			u.gets += float64(n)
		} else {
			u.puts += float64(n)
		}
	}
	u.logBytes = float64(len(c.lambda.logs(c.reconcile)) + len(c.lambda.logs(c.settle)) + len(c.output.String()))
	return u
}

// untilIdle ticks until nothing is under way and a tick finds nothing to do.
func (c *cloud) untilIdle() {
	c.t.Helper()
	c.until("everything that was started has ended", c.quiet)
	c.tickUntil("idle", func() bool { return c.tick().Idle && c.quiet() })
}

// quiet reports whether nothing is under way.
func (c *cloud) quiet() bool {
	c.mu.Lock()
	ended, settled := c.started, c.settled
	c.mu.Unlock()
	c.lambda.mu.Lock()
	defer c.lambda.mu.Unlock()
	if c.lambda.pending > 0 {
		return false
	}
	for _, f := range c.lambda.functions {
		if len(f.busy) > 0 {
			return false
		}
	}
	return ended == c.containers() && settled >= ended
}

func (u usage) minus(v usage) usage { return u.plus(v.times(-1)) }

// measure returns what a deployment takes for an idle tick, for one that only
// notes that all is well, and for a change of n tasks.
func measure(c *cloud, n int) (idle, change usage) {
	c.register("web-1", 8080)
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("task-%d", i))
	}
	c.module("")
	c.tasks(c.s3Backend(), names...)
	c.mustPush()
	c.tickUntil("applied, and idle", func() bool { return c.out(names[n-1]) != "" && c.tick().Idle })
	c.untilIdle()
	before := c.taken()
	const ticks = 20
	for range ticks {
		if !c.tick().Idle {
			c.t.Fatal("not idle")
		}
	}
	idle = c.taken().minus(before).times(1.0 / ticks)
	idle.scheduled = 1

	before = c.taken()
	containers := c.containers()
	c.register("web-2", 8081)
	c.tickUntil("the change is applied", func() bool { return strings.Contains(c.out(names[n-1]), "web-2") && c.containers() > containers })
	c.tickUntil("idle", func() bool { return c.tick().Idle })
	return idle, c.taken().minus(before)
}

// The table in docs/cost.md is what comes of what is measured here. Times
// differ from run to run and from machine to machine, so that the table need
// only be near.
func TestTheCostThatIsDocumentedIsWhatIsMeasured(t *testing.T) {
	c := deploy(t, options{})
	idle, change := measure(c, 5)
	// Every 5 minutes all is read again, and it is noted that all is well: as
	// much as the tick after a change, without its container.
	note := usage{invocations: 1, function: 4 * idle.function, reads: 6, writes: 8, gets: 1}
	// A metric is paid for by the hours in which it is written: five are by
	// every tick, four more by runs.
	standing := usage{monthMetrics: 5, monthAlarms: 6}
	ticks := month.Minutes()
	quiet := idle.times(ticks).plus(note.times(ticks / 5)).plus(standing)
	scenarios := []struct {
		name string
		u    usage
	}{
		{"nothing changes", quiet},
		{"10 changes a day", quiet.plus(change.times(10 * month.Hours() / 24)).plus(usage{monthMetrics: 4 * 10.0 / 24})},
		{"a change every 10 minutes", quiet.plus(change.times(ticks / 10)).plus(usage{monthMetrics: 4})},
		{"window of 50 s, nothing changes", quiet.plus(usage{function: time.Duration(ticks) * 50 * time.Second})},
	}
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "cost.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(s.name) + ` \| \$([0-9.]+) \|`).FindStringSubmatch(string(text))
		var said float64
		if row != nil {
			fmt.Sscan(row[1], &said)
		}
		got := s.u.dollars()
		t.Logf("%s: $%.2f a month\n%s", s.name, got, bill(s.u))
		if row == nil || math.Abs(said-got) > math.Max(0.5, 0.5*got) {
			t.Errorf("docs/cost.md does not say of %q that it is about $%.2f a month", s.name, got)
		}
	}
	if got := idle.reads; got != 1 {
		t.Errorf("an idle tick takes %g read units", got)
	}
}

func bill(u usage) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, i := range u.items() {
		fmt.Fprintf(w, "\t%s\t$%.4f\t\n", i.what, i.dollars)
	}
	w.Flush()
	return b.String()
}
