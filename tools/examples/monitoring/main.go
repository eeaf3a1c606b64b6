// Command monitoring checks Grafana dashboards and files of Prometheus' rules against the metrics of a scrape: each
// metric and label that they use must exist there. It checks the JSON of dashboards against the types that Grafana
// publishes, and by the rules of Grafana's dashboard-linter, which no package registry has. `promtool check rules`
// checks the syntax of rules.
//
//	go run -C tools/examples ./monitoring SCRAPE FILE...
//
// It prints what is wrong, and exits with 1 if anything is.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("name a scrape, and files to check")
	}
	shown, err := readScrape(args[0])
	if err != nil {
		return fmt.Errorf("read the scrape %s: %w", args[0], err)
	}
	found := 0
	for _, file := range args[1:] {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		check := checkRules
		if strings.HasSuffix(file, ".json") {
			check = checkDashboard
		}
		for _, problem := range check(raw, shown) {
			fmt.Printf("%s: %s\n", file, problem)
			found++
		}
	}
	if found > 0 {
		return fmt.Errorf("%d problems", found)
	}
	return nil
}
