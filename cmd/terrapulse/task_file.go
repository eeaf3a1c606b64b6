package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/terrapulse/terrapulse/internal/apiclient"
	"github.com/terrapulse/terrapulse/internal/config"
)

// readTaskFile reads the one task of a file into the form of the API. Variable
// files are read here; a module that is a relative path stays one, since it is
// the server that reads it.
func readTaskFile(file string) (task apiclient.Task, warnings []string, err error) {
	cfg, err := config.Load(config.Options{
		Paths:    []config.Path{{Name: file}},
		Getenv:   func(string) string { return "" }, // what surrounds the task is the server's
		Hostname: "localhost",
	})
	if err != nil {
		return task, nil, err
	}
	if len(cfg.Tasks) != 1 {
		return task, nil, fmt.Errorf("%s: there must be exactly one task in the file, and there are %d", file, len(cfg.Tasks))
	}
	var deprecated []error
	for _, w := range cfg.Warnings {
		if strings.HasSuffix(w.Problem, " is deprecated") {
			deprecated = append(deprecated, errors.New(w.String()))
			continue
		}
		warnings = append(warnings, w.String())
	}
	if len(deprecated) > 0 {
		return task, nil, errors.Join(deprecated...)
	}
	t := &cfg.Tasks[0]
	if t.WorkingDir != filepath.Join(cfg.WorkingDir, t.Name) {
		warnings = append(warnings, fmt.Sprintf("%s: working_dir has no effect on a task that is made through the API: the server's is used", t.Source))
	}
	return apiTask(t), warnings, nil
}

// apiTask is a task in the form of the API.
func apiTask(t *config.Task) apiclient.Task {
	task := apiclient.Task{
		Name: t.Name, Description: t.Description, Enabled: t.Enabled,
		Module: t.WrittenModule(), Version: t.Version, Providers: t.Providers,
		BufferPeriod: apiBufferPeriod(t.OwnBufferPeriod()),
		Condition:    apiCondition(t.Condition),
	}
	for name, value := range t.Variables {
		if task.Variables == nil {
			task.Variables = map[string]string{}
		}
		task.Variables[name] = string(hclwrite.TokensForValue(value).Bytes())
	}
	for _, in := range t.ModuleInputs {
		if task.ModuleInput == nil {
			task.ModuleInput = &apiclient.ModuleInput{}
		}
		switch in.Kind {
		case config.KindServices:
			task.ModuleInput.Services = apiServices(in.Services[0])
		case config.KindConsulKV:
			task.ModuleInput.ConsulKV = apiKV(in.ConsulKV)
		}
	}
	return task
}

func apiBufferPeriod(own config.OwnBufferPeriod) *apiclient.BufferPeriod {
	if own == (config.OwnBufferPeriod{}) {
		return nil
	}
	b := &apiclient.BufferPeriod{Enabled: own.Enabled}
	text := func(d *time.Duration) *string {
		if d == nil {
			return nil
		}
		s := d.String()
		return &s
	}
	b.Min, b.Max = text(own.Min), text(own.Max)
	return b
}

func apiCondition(c config.Condition) apiclient.Condition {
	use := &c.UseAsModuleInput
	switch c.Kind {
	case config.KindServices:
		s := apiServices(c.Services[0])
		s.UseAsModuleInput = use
		return apiclient.Condition{Services: s}
	case config.KindCatalogServices:
		q := c.CatalogServices
		return apiclient.Condition{CatalogServices: &apiclient.CatalogServices{
			Regexp: q.Regexp, Datacenter: q.Datacenter, Namespace: q.Namespace, NodeMeta: q.NodeMeta, UseAsModuleInput: use}}
	case config.KindConsulKV:
		kv := apiKV(c.ConsulKV)
		kv.UseAsModuleInput = use
		return apiclient.Condition{ConsulKV: kv}
	case config.KindSchedule:
		return apiclient.Condition{Schedule: &apiclient.Schedule{Cron: c.Schedule.Cron}}
	}
	return apiclient.Condition{}
}

func apiServices(q config.Services) *apiclient.Services {
	return &apiclient.Services{
		Names: q.Names, Regexp: q.Regexp, Datacenter: q.Datacenter, Namespace: q.Namespace,
		Filter: q.Filter, CTSUserDefinedMeta: q.CTSUserDefinedMeta}
}

func apiKV(q *config.ConsulKV) *apiclient.ConsulKV {
	return &apiclient.ConsulKV{Path: q.Path, Recurse: q.Recurse, Datacenter: q.Datacenter, Namespace: q.Namespace}
}
