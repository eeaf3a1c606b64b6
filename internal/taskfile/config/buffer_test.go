package config

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

func TestBufferPeriod_OfTaskAndAllTasks(t *testing.T) {
	on := func(min, max time.Duration) BufferPeriod {
		return BufferPeriod{true, min * time.Second, max * time.Second}
	}
	const off = `enabled = false`
	tests := []struct {
		global, task string
		want         BufferPeriod
	}{
		{``, ``, on(5, 20)},
		{`min = "10s"`, ``, on(10, 20)},
		{`min = "30s"`, ``, on(30, 30)},
		{`max = "3s"`, ``, on(5, 5)},
		{off, ``, BufferPeriod{}},
		{off + "\nmin = \"9s\"", ``, BufferPeriod{}},
		{``, off, BufferPeriod{}},
		{``, `min = "10s"`, on(10, 40)},
		{``, `max = "60s"`, on(5, 60)},
		{`min = "7s"`, `max = "60s"`, on(7, 60)},
		{off, `max = "60s"`, on(5, 60)},
		{`min = "7s"`, `enabled = true`, on(7, 28)},
		{off, `enabled = true`, on(5, 20)},
		{off, `min = "1s"`, on(1, 4)},
		{``, "min = \"10s\"\nmax = \"2s\"", on(10, 10)},
		{``, `max = "2s"`, on(5, 5)},
		{``, "min = \"0s\"\nmax = \"0s\"", on(0, 0)},
	}
	for _, tt := range tests {
		cfg := load(t, "f.hcl", "buffer_period {\n"+tt.global+"\n}\n"+aTask(services+"\nbuffer_period {\n"+tt.task+"\n}"))
		if got := cfg.Tasks[0].BufferPeriod; got != tt.want {
			t.Errorf("global {%s}, task {%s}: %+v, want %+v", tt.global, tt.task, got, tt.want)
		}
		if len(cfg.Warnings) > 0 {
			t.Errorf("global {%s}, task {%s}: warnings %v", tt.global, tt.task, cfg.Warnings)
		}
	}
}

func TestBufferPeriod_MaxIsNeverLessThanMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.Custom(func(t *rapid.T) block.Duration {
			return block.Duration{
				Origin: block.Origin{Set: rapid.Bool().Draw(t, "set")},
				V:      time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "duration")),
			}
		})
		var l loader
		parent := l.globalBuffer(&BufferPeriod{
			Enabled: rapid.Bool().Draw(t, "global"), Min: duration.Draw(t, "min").V, Max: duration.Draw(t, "max").V,
		})
		b := l.taskBuffer(&rawTaskBuffer{Min: duration.Draw(t, "min"), Max: duration.Draw(t, "max")}, parent)
		for _, b := range []BufferPeriod{parent, b} {
			if b.Min < 0 || b.Max < b.Min || !b.Enabled && b != (BufferPeriod{}) {
				t.Fatalf("buffer period %+v", b)
			}
		}
	})
}

func TestBufferPeriod_NoneForASchedule(t *testing.T) {
	const schedule = "condition \"schedule\" { cron = \"@daily\" }\nmodule_input \"services\" { names = [\"web\"] }"
	cfg := load(t, "f.hcl", aTask(schedule))
	if cfg.Tasks[0].BufferPeriod.Enabled || len(cfg.Warnings) > 0 {
		t.Errorf("buffer period %+v, warnings %v", cfg.Tasks[0].BufferPeriod, cfg.Warnings)
	}
	for _, own := range []string{`max = "1s"`, `enabled = true`} {
		if cfg := load(t, "f.hcl", aTask(schedule+"\nbuffer_period { "+own+" }")); cfg.Tasks[0].BufferPeriod.Enabled || len(cfg.Warnings) != 1 {
			t.Errorf("%s: buffer period %+v, warnings %v", own, cfg.Tasks[0].BufferPeriod, cfg.Warnings)
		}
	}
	cfg = load(t, "f.hcl", aTask(schedule+"\nbuffer_period { min = \"1s\" }"))
	if cfg.Tasks[0].BufferPeriod.Enabled || len(cfg.Warnings) != 1 ||
		cfg.Warnings[0].String() != "f.hcl:6: task[0].buffer_period: buffer_period has no effect on a task with a schedule; remove it" {
		t.Errorf("buffer period %+v, warnings %v", cfg.Tasks[0].BufferPeriod, cfg.Warnings)
	}
}

func TestRunTimeout_TasksOwnOneCountsElseTheGlobalOne(t *testing.T) {
	for _, tt := range []struct {
		global, task string
		want         time.Duration
	}{
		{``, ``, time.Hour},
		{`run_timeout = "10m"`, ``, 10 * time.Minute},
		{`run_timeout = "10m"`, `run_timeout = "2h"`, 2 * time.Hour},
		{`run_timeout = "10m"`, `run_timeout = "0s"`, 0},
		{`run_timeout = 0`, ``, 0},
	} {
		cfg := load(t, "f.hcl", tt.global+"\n"+aTask(services+"\n"+tt.task))
		if got := cfg.Tasks[0].RunTimeout; got != tt.want {
			t.Errorf("global {%s}, task {%s}: %s, want %s", tt.global, tt.task, got, tt.want)
		}
		if plain := load(t, "f.hcl", aTask(services)); cfg.Tasks[0].Digest(cfg) != plain.Tasks[0].Digest(plain) {
			t.Errorf("global {%s}, task {%s}: another definition, which would run the task", tt.global, tt.task)
		}
	}
}
