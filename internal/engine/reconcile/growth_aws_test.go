package reconcile_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkGrowthTable counts what ticks in AWS need of the table, in DynamoDB Local: requests, bytes
// of the answers, records written. Its times say little about DynamoDB.
func BenchmarkGrowthTable(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		f, m := onDynamoDB(b, n)
		b.Run("queue", func(b *testing.B) {
			f.b = b
			for b.Loop() {
				m.reset()
				ticks := f.settle()
				b.ReportMetric(float64(ticks), "ticks")
				m.report(b, "task", float64(n), map[string]float64{"task-records": 4})
			}
		})
		for _, c := range []struct {
			name string
			do   func() bool
			most map[string]float64
		}{
			{"idle", func() bool { return f.tick(reconcile.TickOptions{}).Idle },
				map[string]float64{"requests": 1, "answer-B": 2000, "records": 0}},
			// The mean may have one tick in which the removal of events and a fold coincide. Of the
			// records, 8 are those of one change; the others are the shares of removals and folds.
			{"change", func() bool {
				f.change(f.Config.Tasks[n/2].Name)
				return len(f.tick(reconcile.TickOptions{}).Launches) == 1
			}, map[string]float64{"requests": 10 + 1.0/averaged, "answer-B": 500_000, "records": 11, "task-records": 1}},
		} {
			b.Run(c.name, func(b *testing.B) {
				f.b = b
				for b.Loop() {
					m.reset()
					for range averaged {
						m.off.Store(true)
						f.settle()
						f.change(f.Config.Tasks[0].Name) // its ticks fold what many runs have noted
						f.settle()
						m.off.Store(false)
						if !c.do() {
							b.Fatalf("the tick is not that of %s", c.name)
						}
					}
					m.report(b, "op", averaged, c.most)
				}
			})
		}
	})
}

// averaged is over how many ticks counts are averaged: some remove what several have left.
const averaged = 12

// onDynamoDB is a fleet in AWS, with at most 40 containers, in which nothing has run.
func onDynamoDB(b *testing.B, n int) (*fleet, *meter) {
	b.Helper()
	url := dynamotest.Start(b)
	m := &meter{units: map[string]int64{}}
	cfg := dynamotest.Config(url)
	cfg.HTTPClient = m
	f := newFleet(b, dynamo.New(cfg, dynamotest.Table(b, url)), fleetOf(n))
	f.store.After = m.wrote
	f.MaxLaunches = 40
	return f, m
}

// meter counts what a store needs of DynamoDB.
type meter struct {
	requests, answered atomic.Int64 // HTTP requests, and the bytes of their answers
	writes             atomic.Int64 // requests that write
	records, written   atomic.Int64 // records that were written, without checks, and their bytes
	tasks              atomic.Int64 // of these, records of tasks
	off                atomic.Bool  // nothing is counted

	mu    sync.Mutex
	units map[string]int64 // computed: units of writing that DynamoDB bills, by collection, which is a partition key
}

// Do implements aws.HTTPClient.
func (m *meter) Do(r *http.Request) (*http.Response, error) {
	if m.off.Load() {
		return http.DefaultClient.Do(r)
	}
	m.requests.Add(1)
	res, err := http.DefaultClient.Do(r)
	if err == nil {
		res.Body = counted{res.Body, &m.answered}
	}
	return res, err
}

// counted counts the bytes of a body.
type counted struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// wrote counts a write. DynamoDB bills a unit for each started KB of an item, and twice that in a transaction.
func (m *meter) wrote(changes []state.Change) error {
	if m.off.Load() {
		return nil
	}
	factor := int64(1)
	if len(changes) > 1 {
		factor = 2
	}
	m.writes.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		collection, _, _ := strings.Cut(c.Key, "/")
		size := int64(len(c.Key) + len(c.Value))
		m.units[collection] += factor * (size/1024 + 1)
		if c.Op != state.OpCheck {
			m.records.Add(1)
			m.written.Add(size)
			if strings.HasPrefix(c.Key, state.TaskPrefix) {
				m.tasks.Add(1)
			}
		}
	}
	return nil
}

func (m *meter) reset() {
	for _, n := range []*atomic.Int64{&m.requests, &m.answered, &m.writes, &m.records, &m.written, &m.tasks} {
		n.Store(0)
	}
	clear(m.units)
}

// report reports what was counted since reset, for each of n. It fails if there is more than most of a unit.
func (m *meter) report(b *testing.B, of string, n float64, most map[string]float64) {
	for unit, count := range map[string]*atomic.Int64{"requests": &m.requests, "answer-B": &m.answered, "writes": &m.writes,
		"task-records": &m.tasks, "records": &m.records, "record-B": &m.written} {
		each := float64(count.Load()) / n
		b.ReportMetric(each, unit+"/"+of)
		if bound, bounded := most[unit]; bounded && each > bound {
			b.Errorf("%.2f %s for each %s, at most %.2f are permitted", each, unit, of, bound)
		}
	}
	var all, busiest int64
	for _, units := range m.units {
		all, busiest = all+units, max(busiest, units)
	}
	b.ReportMetric(float64(all)/n, "write-units/"+of)
	b.ReportMetric(float64(busiest)/n, "partition-units/"+of) // of the collection with most
}
