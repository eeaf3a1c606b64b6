//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Prices are AWS's list prices in us-east-1, in dollars, as they were
// in November 2026 to the knowledge of who wrote them down: without free tiers.
const (
	lambdaRequest  = 0.20 / 1e6
	lambdaGBSecond = 0.0000133334 // on arm64
	readUnit       = 0.125 / 1e6  // strongly consistent, of 4 KB
	writeUnit      = 0.625 / 1e6  // of 1 KB
	scheduleEvent  = 1.00 / 1e6
	busEvent       = 1.00 / 1e6      // of 64 KB
	fargateVCPU    = 0.04048 / 3600  // on x86_64, a second
	fargateGB      = 0.004445 / 3600 // a second
	objectPut      = 0.005 / 1000
	objectGet      = 0.0004 / 1000
	logGB          = 0.50
	sentGB         = 0.09 // to the internet
	metricMonth    = 0.30
	alarmMonth     = 0.10
	secretMonth    = 0.40
	secretRead     = 0.05 / 1e4
	publicAddress  = 0.005 / 3600 // a second
	endpointHour   = 0.01         // in each zone
	natHour        = 0.045        // in each zone
	natGB          = 0.045

	// What the template gives: GB of the function, vCPU and GB of a container,
	// how long Fargate takes, billed, to fetch an image and start it, and the
	// least that it bills for a container.
	functionGB   = 0.5
	containerCPU = 1.0
	containerGB  = 2.0
	fargateStart = 20 * time.Second
	fargateLeast = time.Minute

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
	container    time.Duration // of the processor, which a container has one of
	logBytes     float64
	sentBytes    float64 // to callers of the function URL
	scheduled    float64
	events       float64 // on the bus
	monthMetrics float64
	monthAlarms  float64
}

func (u usage) times(n float64) usage {
	u.invocations, u.reads, u.writes, u.gets, u.puts, u.containers = n*u.invocations, n*u.reads, n*u.writes, n*u.gets, n*u.puts, n*u.containers
	u.function, u.container = time.Duration(n*float64(u.function)), time.Duration(n*float64(u.container))
	u.logBytes, u.sentBytes, u.scheduled, u.events = n*u.logBytes, n*u.sentBytes, n*u.scheduled, n*u.events
	return u
}

func (u usage) plus(v usage) usage {
	u.invocations, u.reads, u.writes, u.gets, u.puts, u.containers = u.invocations+v.invocations, u.reads+v.reads, u.writes+v.writes, u.gets+v.gets, u.puts+v.puts, u.containers+v.containers
	u.function, u.container, u.logBytes, u.scheduled = u.function+v.function, u.container+v.container, u.logBytes+v.logBytes, u.scheduled+v.scheduled
	u.sentBytes += v.sentBytes
	u.events, u.monthMetrics, u.monthAlarms = u.events+v.events, u.monthMetrics+v.monthMetrics, u.monthAlarms+v.monthAlarms
	return u
}

// billed is how long Fargate bills for all containers.
func (u usage) billed() time.Duration {
	return max(time.Duration(u.containers*float64(fargateStart))+u.container, time.Duration(u.containers*float64(fargateLeast)))
}

// items are what the usage costs, by what is paid for.
func (u usage) items() []item {
	return []item{
		{"Lambda", u.invocations*lambdaRequest + u.function.Seconds()*functionGB*lambdaGBSecond},
		{"EventBridge Scheduler", u.scheduled * scheduleEvent},
		{"EventBridge", u.events * busEvent},
		{"DynamoDB", u.reads*readUnit + u.writes*writeUnit},
		{"Fargate", u.billed().Seconds() * (containerCPU*fargateVCPU + containerGB*fargateGB)},
		{"S3", u.gets*objectGet + u.puts*objectPut},
		{"CloudWatch Logs", u.logBytes / 1e9 * logGB},
		{"data transfer", u.sentBytes / 1e9 * sentGB},
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
	u.containers, u.sentBytes = float64(c.started), float64(c.sent)
	c.mu.Unlock()
	// The time by the clock depends on what else this machine does.
	var ended syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ended); err != nil {
		c.t.Fatal(err)
	}
	u.container = time.Duration(ended.Utime.Nano() + ended.Stime.Nano())
	c.dynamo.mu.Lock()
	u.reads, u.writes = c.dynamo.reads, c.dynamo.writes
	c.dynamo.mu.Unlock()
	u.events = float64(len(c.bus.Events()))
	for operation, n := range c.s3.passed() {
		if strings.HasPrefix(operation, "GET") || strings.HasPrefix(operation, "HEAD") {
			u.gets += float64(n)
		} else {
			u.puts += float64(n)
		}
	}
	u.logBytes = float64(len(c.lambda.logs(c.reconcile)) + len(c.lambda.logs(c.settle)) + len(c.lambda.logs(c.api)) + len(c.output.String()))
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

// measured is what a deployment takes.
type measured struct {
	idle    usage // by an idle tick
	refresh usage // by a tick that reads every view, as one does every 5 minutes
	change  usage // by a change
	metrics struct{ ticks, all int }
	// What a page of `terrapulse ui` takes each time that it asks for news.
	page, largePage usage
}

// measure measures a deployment of n tasks, which a change concerns together.
func measure(c *cloud, n int) (m measured) {
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
	before, logged := c.taken(), len(c.lambda.logs(c.reconcile))
	const ticks = 20
	for range ticks {
		if !c.tick().Idle {
			c.t.Fatal("not idle")
		}
	}
	m.idle = c.taken().minus(before).times(1.0 / ticks)
	m.idle.scheduled = 1
	m.metrics.ticks = metricsIn(c.lambda.logs(c.reconcile)[logged:])

	rec, err := state.Read[state.Reconcile](c.t.Context(), c.store, state.ReconcileKey)
	if err != nil {
		c.t.Fatal(err)
	}
	due := rec.Data
	due.Refreshed = due.Refreshed.Add(-time.Hour)
	if _, err := c.store.Apply(c.t.Context(), rec.Write(due)); err != nil {
		c.t.Fatal(err)
	}
	before = c.taken()
	if answer := c.tick(); answer.Idle || len(answer.Launches) > 0 {
		c.t.Fatalf("this tick was to read every view: %+v", answer)
	}
	m.refresh = c.taken().minus(before)

	before = c.taken()
	c.register("web-2", 8081)
	if answer := c.tick(); len(answer.Launches) != 1 {
		c.t.Fatalf("a change of %d tasks is to be one container: %+v", n, answer)
	}
	c.until("applied, settled, and decided anew", func() bool {
		return c.quiet() && c.taken().minus(before).invocations >= 3
	})
	if !strings.Contains(c.out(names[n-1]), "web-2") {
		c.t.Fatal("the change is not applied")
	}
	m.change = c.taken().minus(before)
	m.change = m.change.plus(m.refresh) // the schedule's tick in the container's minute looks at the run
	m.metrics.all = metricsIn(c.lambda.logs(c.reconcile)[logged:] + c.lambda.logs(c.settle) + c.output.String())

	c.until("all that a change brings has ended", c.quiet)
	m.page = c.news(pageTime)
	c.manyTasks(1000, "task-0", func(*state.Task) {})
	m.largePage = c.news(largePageTime)
	return m
}

// What a request for news takes of the function, with 5 and with 1,000 tasks. BenchmarkBounds measures it: by
// the time that a busy machine takes, no price can be judged.
const pageTime, largePageTime = 13 * time.Millisecond, 34 * time.Millisecond

// news returns what a request for news takes on average while nothing changes, of a
// function that has answered before. A tick records every 5 minutes that all is well;
// otherwise the answer is the same, and is not sent again.
func (c *cloud) news(took time.Duration) usage {
	c.t.Helper()
	tag, _ := c.overview("", http.StatusOK)
	_, same := c.overview(tag, http.StatusNotModified)
	_, fresh := c.overview("", http.StatusOK)
	same.function, fresh.function = took, took
	const perMark = 5 * 60 / 15
	return same.times(perMark - 1).plus(fresh).times(1.0 / perMark)
}

// overview asks for news, and returns the tag of the answer and what that has taken.
func (c *cloud) overview(known string, want int) (tag string, took usage) {
	c.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/v1/overview?"+selection.None().Query().Encode(), nil)
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("If-None-Match", known)
	before := c.taken()
	status, header, said, err := c.handOn(r, nil, ann)
	if err != nil || status != want {
		c.t.Fatalf("overview: %d, %v: %s", status, err, said)
	}
	for name, value := range header {
		if strings.EqualFold(name, "ETag") {
			tag = value
		}
	}
	return tag, c.taken().minus(before)
}

// manyTasks writes the records of further tasks, which are like that of another one with
// as many runs as are kept.
func (c *cloud) manyTasks(n int, as string, change func(*state.Task)) {
	c.t.Helper()
	like, err := state.Read[state.Task](c.t.Context(), c.store, state.TaskKey(as))
	if err != nil {
		c.t.Fatal(err)
	}
	var changes []state.Change
	for i := range n {
		task, name := like.Data, fmt.Sprintf("many-%04d", i)
		for range 20 { // as many as a record keeps
			run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindApply, State: state.RunSucceeded, Work: state.Work{Digest: task.Observed.Digest},
				Times: state.Times{Started: time.Now().Add(-time.Minute), Ended: time.Now()}}
			task, _ = task.Conclude(run, task.Attempted.Definition)
		}
		task = statetest.AtRest(task)
		change(&task)
		changes = append(changes, state.Create(state.TaskKey(name), state.Encode(task)))
		if len(changes) == 15 || i == n-1 {
			if _, err := c.store.Apply(c.t.Context(), changes...); err != nil {
				c.t.Fatal(err)
			}
			changes = nil
		}
	}
	var noted summary.Summary
	known, err := noted.Read(c.t.Context(), c.store)
	if err == nil && known {
		err = noted.Fold(c.t.Context(), c.store, c.store.Apply, c.store.Apply) // as the ticks do that follow runs
	}
	if err != nil || !known {
		c.t.Fatal(known, err)
	}
}

// metricsIn counts the metrics that log lines define.
func metricsIn(log string) int {
	names := map[string]bool{}
	for line := range strings.Lines(log) {
		var written struct {
			AWS struct {
				CloudWatchMetrics []struct{ Metrics []struct{ Name string } }
			} `json:"_aws"`
		}
		if json.Unmarshal([]byte(line), &written) != nil {
			continue
		}
		for _, set := range written.AWS.CloudWatchMetrics {
			for _, m := range set.Metrics {
				names[m.Name] = true
			}
		}
	}
	return len(names)
}

// near is how far a documented cost may be from the measured one.
const near = 0.15

// The tables in docs/scale.md say what is measured here.
func TestTheCostThatIsDocumentedIsWhatIsMeasured(t *testing.T) {
	c := deploy(t, options{})
	m := measure(c, 5)
	// A metric is paid for by the hours in which it is written.
	runMetrics := float64(m.metrics.all - m.metrics.ticks)
	standing := usage{monthMetrics: float64(m.metrics.ticks), monthAlarms: float64(c.alarms)}
	ticks := month.Minutes()
	quiet := m.idle.times(ticks * 4 / 5).plus(m.refresh.times(ticks / 5)).plus(standing)
	quiet.scheduled = ticks
	often := m.change.times(ticks / 10)
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "scale.md"))
	if err != nil {
		t.Fatal(err)
	}
	says := func(row string, got float64) {
		t.Helper()
		found := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \| \$([0-9.]+) \|`).FindStringSubmatch(string(text))
		var said float64
		if found != nil {
			fmt.Sscan(found[1], &said)
		}
		if found == nil || math.Abs(said-got) > near*got {
			t.Errorf("docs/scale.md says $%.2f of %q, and $%.2f was measured", said, row, got)
		}
	}
	for _, s := range []struct {
		row string
		u   usage
	}{
		{"nothing changes", quiet},
		{"10 changes a day", quiet.plus(m.change.times(10 * month.Hours() / 24)).plus(usage{monthMetrics: runMetrics * 10 / 24})},
		{"a change every 10 minutes", quiet.plus(often).plus(usage{monthMetrics: runMetrics})},
		{"`PollSeconds=1`, nothing changes", quiet.plus(usage{function: time.Duration(ticks) * 50 * time.Second})},
	} {
		t.Logf("%s: $%.2f a month\n%s", s.row, s.u.dollars(), bill(s.u))
		says(s.row, s.u.dollars())
	}
	t.Logf("a change: %.0f events, %.0f container, %s of the processor, %s billed", m.change.events, m.change.containers, m.change.container.Round(time.Millisecond), m.change.billed())

	const polls = 3600 / 15 // an hour, while nothing changes
	for _, p := range []struct {
		with string
		page usage
	}{{"5 tasks", m.page}, {"1,000 tasks", m.largePage}} {
		always := p.page.times(polls * month.Hours())
		t.Logf("a page, with %s: a request takes %s, %g units, %.0f bytes\n%s", p.with, p.page.function, p.page.reads, p.page.sentBytes, bill(always))
		says("a page that is always open, with "+p.with, always.dollars())
	}

	says("the stack's secret in Secrets Manager, read every 5 minutes", secretMonth+ticks/5*secretRead)
	says("a public address for each container (`AssignPublicIp`), with a change every 10 minutes", often.billed().Seconds()*publicAddress)
	endpoint := endpointHour * month.Hours()
	says("an interface endpoint, in one zone", endpoint)
	says("the seven endpoints that `infra/network.yaml` makes, in one zone", endpoint*float64(interfaceEndpoints(t)))
	says("a NAT gateway, in one zone", natHour*month.Hours())
	says("100 MB through it for each container, with a change every 10 minutes", often.containers*0.1*natGB)

	container := func(runs time.Duration) float64 {
		u := usage{containers: 1, container: runs}
		return u.billed().Seconds() * (containerCPU*fargateVCPU + containerGB*fargateGB)
	}
	says("a container whose runs take seconds: a minute", container(time.Second))
	says("a container whose runs take 5 minutes", container(5*time.Minute))
	const linger = 5 * time.Minute
	lingering := often
	lingering.container += time.Duration(lingering.containers) * linger
	says("`Linger=300s`, with a change every 10 minutes", lingering.dollars()-often.dollars())
	if m.idle.reads != 1 {
		t.Errorf("an idle tick takes %g read units", m.idle.reads)
	}
}

// interfaceEndpoints counts those of infra/network.yaml with its default
// parameters, by which the secrets are in Secrets Manager alone.
func interfaceEndpoints(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "infra", "network.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`    Type: AWS::EC2::VPCEndpoint\n    Condition: (\w+)\n    Properties:\n      VpcEndpointType: Interface\n`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "Ssm" && m[1] != "Every" {
			n++
		}
	}
	return n
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
