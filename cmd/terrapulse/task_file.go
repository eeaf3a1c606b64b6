package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// ofTaskFile names the flag of this command in errors about configuration files.
var ofTaskFile = strings.NewReplacer("-config-file and -config-dir", "-task-file", "-config-file", "-task-file")

// readTaskFile reads the one task of a file into the form of the API. Variable
// files are read here; a module that is a relative path stays one, since it is
// the server that reads it.
func readTaskFile(file string) (task apispec.Task, warnings []string, err error) {
	cfg, err := config.Load(config.Options{
		Paths:    []config.Path{{Name: file}},
		Getenv:   func(string) string { return "" }, // what surrounds the task is the server's
		Hostname: "localhost", ForServer: true,
	})
	if err != nil {
		return task, nil, errors.New(ofTaskFile.Replace(err.Error()))
	}
	if len(cfg.Tasks) == 0 {
		return task, nil, fmt.Errorf("task file '%s' contains no task", file)
	}
	var deprecated []error
	for _, w := range cfg.Warnings {
		if key, ok := strings.CutSuffix(w.Problem, " is deprecated"); ok {
			deprecated = append(deprecated, noLongerSupported(key, w))
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
	return asRequest(t), warnings, nil
}

// asRequest is a task as a client of the API sends it: what it does not say follows from the server.
func asRequest(t *config.Task) apispec.Task {
	task := apiview.Task(t)
	if task.BufferPeriod != nil {
		task.BufferPeriod = bufferPeriod(t.OwnBufferPeriod())
	}
	if len(t.ModuleInputs) == 0 {
		task.ModuleInput = nil
	}
	return task
}

// noLongerSupported is the error of a deprecated key, in words that scripts
// look for.
func noLongerSupported(key string, w config.Diagnostic) error {
	block := "task"
	switch {
	case key == "service":
		return fmt.Errorf("%s: the 'service' block is no longer supported; %s", w.Position, w.Hint)
	case strings.Contains(w.Key, "condition."):
		block = "condition"
	}
	return fmt.Errorf("%s: the '%s' field in the %s block is no longer supported; %s", w.Position, key, block, w.Hint)
}

// bufferPeriod is what a task says of its buffer period: what it does not say
// follows from the server's.
func bufferPeriod(own config.OwnBufferPeriod) *apispec.BufferPeriod {
	text := func(d *time.Duration) *string {
		if d == nil {
			return nil
		}
		return new(d.String())
	}
	return &apispec.BufferPeriod{Enabled: own.Enabled, Min: text(own.Min), Max: text(own.Max)}
}
