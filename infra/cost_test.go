package infra_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/metrics"
)

// Prices in us-east-1 in dollars, as AWS listed them in 2026; without what an
// account has free. https://aws.amazon.com/pricing/
const (
	lambdaRequest = 0.20 / 1e6
	lambdaGBs     = 0.0000133334 // arm64
	tableRead     = 0.125 / 1e6  // of up to 4 KB, strongly consistent
	tableWrite    = 0.625 / 1e6  // of up to 1 KB
	fargateCPU    = 0.03238      // arm64, vCPU and hour
	fargateGB     = 0.00356      // arm64, GB and hour
	metric        = 0.30         // a month
	alarm         = 0.10         // a month
	logGB         = 0.50
	secret        = 0.40 // a month
	secretRead    = 0.05 / 1e4
	ec2Small      = 0.0168 // t4g.small, an hour
	diskGB        = 0.08   // gp3, a month
)

const (
	month    = 730.0             // hours
	ticks    = month * 60        // one a minute
	refresh  = month * 60 / 5    // ticks that read everything and write
	memory   = 0.5               // GB of the function
	cpu, ram = 1.0, 2.0          // vCPU and GB of a container
	perRun   = 90.0 / 3600       // hours of a container with its start
	changes  = 20 * 8 * 22       // of the busy month: 20 an hour of working days
	tickLog  = 800.0 / (1 << 30) // GB that a tick logs
)

// scenario is a month.
type scenario struct {
	name    string
	seconds float64 // of the function, a tick that finds nothing
	runs    float64 // containers
}

// rows are what a month costs, by service. The requests of a tick are those
// that BenchmarkBounds of functions/e2e measures: 1 read of the table.
func (s scenario) rows() []float64 {
	const actingTick = 2.0 // seconds
	lambda := (ticks+3*s.runs)*lambdaRequest + memory*lambdaGBs*(ticks*s.seconds+refresh*0.5+s.runs*actingTick)
	table := tableRead*(ticks+refresh*10+s.runs*40) + tableWrite*(refresh*10+s.runs*60)
	watch := metric*float64(len(metrics.All)) + 5*alarm + logGB*(ticks*tickLog+s.runs*20_000/(1<<30))
	secrets := secret + refresh*secretRead
	fargate := s.runs * perRun * (cpu*fargateCPU + ram*fargateGB)
	return []float64{lambda, table, watch, secrets, fargate}
}

// The page's table is what the prices and the requests make.
func TestTheCostsAreThoseOfTheRequests(t *testing.T) {
	scenarios := []scenario{{"idle", 0.05, 0}, {"window of 50 s, idle", 50, 0}, {"busy", 0.05, changes}}
	services := []string{"Lambda", "DynamoDB", "CloudWatch", "Secrets Manager", "Fargate"}
	var b strings.Builder
	b.WriteString("| a month, dollars |")
	for _, s := range scenarios {
		fmt.Fprintf(&b, " %s |", s.name)
	}
	b.WriteString("\n|---|---:|---:|---:|\n")
	totals := make([]float64, len(scenarios))
	for i, service := range services {
		fmt.Fprintf(&b, "| %s |", service)
		for j, s := range scenarios {
			cost := s.rows()[i]
			totals[j] += cost
			fmt.Fprintf(&b, " %.2f |", cost)
		}
		b.WriteString("\n")
	}
	b.WriteString("| **together** |")
	for _, total := range totals {
		fmt.Fprintf(&b, " **%.2f** |", total)
	}
	b.WriteString("\n")
	daemon := fmt.Sprintf("| a daemon | one | two, to be safe |\n|---|---:|---:|\n| Fargate, %.2g vCPU and %.2g GB | %.2f | %.2f |\n| EC2, t4g.small with 20 GB | %.2f | %.2f |\n",
		0.5, 1.0, month*(0.5*fargateCPU+fargateGB), 2*month*(0.5*fargateCPU+fargateGB), month*ec2Small+20*diskGB, 2*(month*ec2Small+20*diskGB))
	page := read(t, "docs/cost.md")
	for _, table := range []string{b.String(), daemon} {
		if !strings.Contains(page, table) {
			t.Errorf("docs/cost.md should have:\n%s", table)
		}
	}
	if n := len(regexp.MustCompile(`Type: AWS::CloudWatch::Alarm\n`).FindAllString(read(t, "template.yaml"), -1)); n != 5 {
		t.Errorf("there are %d alarms, not 5", n)
	}
}
