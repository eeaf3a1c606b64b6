package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/cronexpr"
	"github.com/hashicorp/go-bexpr"

	"github.com/terrapulse/terrapulse/internal/config/block"
)

// condition returns a task's condition, or none.
func (l *loader) condition(raw *rawCondition) Condition {
	var kinds []string
	for _, k := range []struct {
		kind Kind
		set  bool
	}{
		{KindServices, raw.Services.Set},
		{KindCatalogServices, raw.CatalogServices.Set},
		{KindConsulKV, raw.ConsulKV.Set},
		{KindSchedule, raw.Schedule.Set},
	} {
		if k.set {
			kinds = append(kinds, string(k.kind))
		}
	}
	switch {
	case len(kinds) == 0:
		if raw.Set {
			l.Missing(raw.Origin, "the condition has no type", `write one of services, catalog-services, consul-kv and schedule after condition, as in condition "services" { ... }`)
		}
		return Condition{}
	case len(kinds) > 1:
		l.Fail(raw.Origin, fmt.Sprintf("expected only one condition but got %d: %s", len(kinds), strings.Join(kinds, ", ")), "make a task for each")
	}

	c := Condition{Kind: Kind(kinds[0])}
	switch c.Kind {
	case KindServices:
		r := &raw.Services
		c.Services = []Services{l.servicesQuery(&r.rawServices, `condition "services"`)}
		c.UseAsModuleInput = l.useAsModuleInput(r.UseAsModuleInput, r.SourceIncludesVar)
	case KindCatalogServices:
		r := &raw.CatalogServices
		if !r.Regexp.Set {
			l.Missing(r.Key("regexp"), "catalog-services 'regexp' field must be set", `".*" is every service`)
		}
		l.compiles(r.Regexp, "unable to compile catalog-services 'regexp'")
		c.CatalogServices = &CatalogServices{
			Regexp:     r.Regexp.V,
			Datacenter: r.Datacenter.V,
			Namespace:  r.Namespace.V,
			NodeMeta:   r.NodeMeta.V,
		}
		c.UseAsModuleInput = l.useAsModuleInput(r.UseAsModuleInput, r.SourceIncludesVar)
	case KindConsulKV:
		r := &raw.ConsulKV
		c.ConsulKV = l.kvQuery(&r.rawConsulKV, "consul-kv condition")
		c.UseAsModuleInput = l.useAsModuleInput(r.UseAsModuleInput, r.SourceIncludesVar)
	case KindSchedule:
		c.Schedule = l.schedule(&raw.Schedule)
	}
	return c
}

func (l *loader) useAsModuleInput(use, deprecated block.Bool) bool {
	switch {
	case use.Set && deprecated.Set:
		l.Warn(deprecated.Origin, "source_includes_var has no effect beside use_as_module_input", "remove it")
	case deprecated.Set:
		return deprecated.V
	}
	return use.V
}

func (l *loader) moduleInputs(raw []rawModuleInput) []Input {
	var inputs []Input
	for i := range raw {
		r := &raw[i]
		if !r.Services.Set && !r.ConsulKV.Set {
			l.Missing(r.Origin, "the module_input is empty", `write services or consul-kv after module_input, as in module_input "services" { ... }`)
		}
		if r.Services.Set {
			inputs = append(inputs, Input{
				Kind:     KindServices,
				Services: []Services{l.servicesQuery(&r.Services, `module_input "services"`)},
			})
		}
		if r.ConsulKV.Set {
			inputs = append(inputs, Input{
				Kind:     KindConsulKV,
				ConsulKV: l.kvQuery(&r.ConsulKV, "consul-kv module_input"),
			})
		}
	}
	return inputs
}

func (l *loader) servicesQuery(raw *rawServices, where string) Services {
	switch {
	case raw.Names.Set && len(raw.Names.V) > 0 && raw.Regexp.Set:
		l.Fail(raw.Regexp.Origin, where+": regexp and names fields cannot both be configured: "+block.Quoted(raw.Regexp.V)+" and "+block.QuotedList(raw.Names.V), "make the names part of the regexp, or make two tasks")
	case len(raw.Names.V) == 0 && !raw.Regexp.Set:
		l.Missing(raw.Origin, where+": either the regexp or names field must be configured", `such as names = ["web"] or regexp = "^web"`)
	}
	for i, name := range raw.Names.V {
		if name == "" {
			l.Fail(raw.Names.Element(i), where+": names field includes empty string(s). services names cannot be empty", "remove it")
		}
	}
	l.compiles(raw.Regexp, where+": unable to compile services regexp")
	s := Services{
		Names:              raw.Names.V,
		Datacenter:         raw.Datacenter.V,
		Namespace:          raw.Namespace.V,
		Filter:             l.filter(raw.Filter),
		CTSUserDefinedMeta: raw.CTSUserDefinedMeta.V,
	}
	if len(s.Names) == 0 {
		s.Names = nil
	}
	if raw.Regexp.Set {
		s.Regexp = &raw.Regexp.V
	}
	return s
}

func (l *loader) compiles(expr block.String, problem string) {
	if _, err := regexp.Compile(expr.V); err != nil {
		l.Fail(expr.Origin, problem+" "+block.Quoted(expr.V)+": "+err.Error(), "the syntax is https://golang.org/s/re2syntax")
	}
}

// maxFilterSteps bounds how long the parser of filters may take over one: its
// time doubles with every nested parenthesis. A hundred terms take a fraction.
const maxFilterSteps = 1_000_000

// filter checks a filter, and returns it without the newlines that a heredoc
// leaves around it.
func (l *loader) filter(raw block.String) string {
	filter := strings.Trim(raw.V, "\n")
	if strings.TrimSpace(filter) == "" {
		return ""
	}
	if deep([]byte(filter)) {
		l.Fail(raw.Origin, "invalid filter "+block.Quoted(filter)+": nested too deep", "")
		return filter
	}
	_, err := bexpr.CreateEvaluator(filter, bexpr.WithMaxExpressions(maxFilterSteps))
	// What is too hard to check here is left to Consul.
	if err != nil && !strings.Contains(err.Error(), "max number of expressions parsed") {
		l.Fail(raw.Origin, "invalid filter "+block.Quoted(filter)+": "+err.Error(), "the syntax is https://developer.hashicorp.com/consul/api-docs/features/filtering")
	}
	return filter
}

func (l *loader) kvQuery(raw *rawConsulKV, where string) *ConsulKV {
	path := strings.TrimPrefix(raw.Path.V, "/")
	// "/" with recurse is every key there is.
	if path == "" && (raw.Path.V == "" || !raw.Recurse.V) {
		l.Missing(raw.Key("path"), "path is required for "+where, `the key, such as "config/web"`)
	}
	return &ConsulKV{
		Path:       path,
		Recurse:    raw.Recurse.V,
		Datacenter: raw.Datacenter.V,
		Namespace:  raw.Namespace.V,
	}
}

func (l *loader) schedule(raw *rawSchedule) *Schedule {
	const syntax = "for more information on writing cron expressions, see https://github.com/hashicorp/cronexpr"
	cron := raw.Cron.V
	if cron == "" {
		l.Missing(raw.Key("cron"), "cron config is required for schedule condition", `such as "*/10 * * * *"; `+syntax)
		return &Schedule{}
	}
	expr, err := cronexpr.Parse(cron)
	if err != nil {
		l.Fail(raw.Cron.Origin, fmt.Sprintf("unable to parse schedule condition's cron config %s: %s", block.Quoted(cron), err), syntax)
		return &Schedule{}
	}
	backwards, noSunday := oddRanges(cron)
	if noSunday != "" {
		l.Warn(raw.Cron.Origin, fmt.Sprintf("the range %s of the schedule %s leaves Sunday out", block.Quoted(noSunday), block.Quoted(cron)),
			"if it is meant, add it: SAT,SUN for SAT-SUN")
	}
	if backwards != "" {
		l.Fail(raw.Cron.Origin, fmt.Sprintf("the schedule %s has a range that goes backwards: %s", block.Quoted(cron), block.Quoted(backwards)),
			"write it as two, such as 22-23,0-6 for 22-6")
		return &Schedule{}
	}
	switch over := fmt.Sprintf("the schedule %s never comes due again", block.Quoted(cron)); {
	case expr.Next(time.Unix(0, 0)).IsZero():
		l.Fail(raw.Cron.Origin, fmt.Sprintf("the schedule %s never comes due", block.Quoted(cron)), "no date matches it")
	case !expr.Next(l.Report.Now).IsZero():
	case l.Existing:
		l.Warn(raw.Cron.Origin, over, "remove the task, or correct the year")
	default:
		l.Fail(raw.Cron.Origin, over, "correct the year")
	}
	return &Schedule{Cron: cron}
}

var cronRange = regexp.MustCompile(`^([a-z]+|[0-9]+)-([a-z]+|[0-9]+)(/[0-9]+)?$`)

// oddRanges returns a range of a cron expression, which can be parsed, that ends
// before it begins, and one that ends on a Sunday which does not belong to it. To
// cronexpr the first is no time at all: it panics on the months NOV-FEB, and
// looks at every second of a century for one in the seconds 5-1. Of SAT-SUN, it
// takes Saturday alone.
func oddRanges(cron string) (backwards, noSunday string) {
	fields := strings.Fields(strings.ToLower(cron))
	weekday := 4
	if len(fields) > 6 {
		weekday = 5
	}
	for i, field := range fields {
		for entry := range strings.SplitSeq(field, ",") {
			m := cronRange.FindStringSubmatch(entry)
			if m == nil {
				continue
			}
			first, last := cronValue(m[1]), cronValue(m[2])
			if i == weekday {
				first %= 7
			}
			switch {
			case i == weekday && last%7 == 0:
				if first > 0 {
					noSunday = entry
				}
			case first > last:
				backwards = entry
			}
		}
	}
	return backwards, noSunday
}

// cronValue is a number, or what a month or a day of the week stands for.
func cronValue(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	name := text[:min(3, len(text))] // Parse has seen to it that it is one
	if day := strings.Index("sunmontuewedthufrisat", name); day >= 0 {
		return day / 3
	}
	return strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", name)/3 + 1
}
