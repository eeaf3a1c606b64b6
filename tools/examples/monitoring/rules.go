package main

import (
	"fmt"
	"log/slog"
	"regexp"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

var (
	// labelOf is a label that an annotation shows.
	labelOf = regexp.MustCompile(`\$labels\.(\w+)`)
	// queried is a query in an annotation, with places for values.
	queried = regexp.MustCompile("printf `([^`]+)`")
	place   = regexp.MustCompile(`%s`)
)

// checkRules returns which metrics and labels of a file of rules do not exist, and which alerts lack something.
func checkRules(raw []byte, shown scrape) (problems []string) {
	parse := parser.NewParser(parser.Options{})
	groups, errs := rulefmt.Parse(raw, false, model.UTF8Validation, parse, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	if groups == nil {
		return problems
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			say := func(format string, args ...any) {
				problems = append(problems, rule.Alert+": "+fmt.Sprintf(format, args...))
			}
			expr, err := parse.ParseExpr(rule.Expr)
			if err != nil {
				continue // it is among errs
			}
			for _, problem := range shown.missing(expr) {
				say("%s", problem)
			}
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				say("it lacks the label severity, or the annotation summary or description")
			}
			for name, text := range rule.Annotations {
				for _, label := range labelOf.FindAllStringSubmatch(text, -1) {
					if !shown.labels(expr)[label[1]] {
						say("the annotation %s shows the label %s, which no series has", name, label[1])
					}
				}
				for _, query := range queried.FindAllStringSubmatch(text, -1) {
					expr, err := parse.ParseExpr(place.ReplaceAllString(query[1], "x"))
					if err != nil {
						say("the annotation %s: %v", name, err)
						continue
					}
					for _, problem := range shown.missing(expr) {
						say("the annotation %s: %s", name, problem)
					}
				}
			}
		}
	}
	return problems
}
