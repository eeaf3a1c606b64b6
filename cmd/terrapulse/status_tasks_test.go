package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// many are more tasks than one answer of the API has: most were applied, three fail.
func many(now time.Time) []situation {
	var all []situation
	for i := range selection.MaxLimit + 200 {
		s := situation{name: fmt.Sprintf("web-%04d", i), task: state.Task{Applied: state.Applied{At: now}, Reason: state.Reason{Code: state.ReasonUnchanged, Text: "nothing changed"}}}
		if i%500 == 7 {
			s.name = fmt.Sprintf("fw-%04d", i)
			s.task = state.Task{Failing: state.Failing{Count: 1, RetryAt: now.Add(time.Minute)}, Reason: state.Reason{Code: state.ReasonBackoff, Text: "retry at noon"}}
		}
		all = append(all, s)
	}
	return all
}

func TestStatus_ListsTheTasksThatFlagsSelect(t *testing.T) {
	now := time.Now().UTC()
	path, store, cfg := stored(t, now, many(now))
	row := regexp.MustCompile(`(?m)^(?:web|fw)-\d+ `)
	for where, source := range map[string]string{"store": "-store=sqlite:" + path, "API": "-http-addr=" + serveStored(t, store, cfg)} {
		for _, tt := range []struct {
			flags string
			rows  int
			has   string
		}{
			{"", 1200, "1197 tasks are applied (web-0000, web-0001, web-0002 and 1194 more): nothing changed"},
			{"-phase failing", 3, "\n\nListed: 3 of 1200 tasks (1197 applied, 3 failing)\n"},
			{"-phase attention", 3, "fw-0507"},
			{"-phase failing -phase applied -limit 5", 5, "Listed: 5 of 1200 tasks"},
			{"-name fw -limit 2", 2, "Listed: 2 of 1200 tasks"},
			{"-name web-00*", 99, "Listed: 99 of 1200 tasks"},
			{"-name web -limit 1100", 1100, "Listed: 1100 of 1200 tasks"},
			{"-phase running", 0, "Listed: 0 of 1200 tasks"},
			{"-limit 0", 0, "Listed: 0 of 1200 tasks"},
			{"-limit 5", 5, "More tasks follow: add -after='web-0001'\n"},
			{"-limit 5 -after web-0001", 5, "More tasks follow: add -after='web-0006'\n"},
			{"-limit 1100 -after web-0001", 1100, "More tasks follow: add -after='web-"},
			{"-after web-1190", 9, "web-1199 "},
			{"-reason backing_off", 3, "fw-0507"},
			{"-search NOON", 3, "fw-1007"},
			{"-search=noon -limit 2", 2, "More tasks follow: add -after='fw-0507'\n"},
			{"-sort -name -limit 1", 1, "web-1199 "},
			{"-sort phase -limit 4", 4, "fw-1007"},
			{"-enabled=false", 0, "Listed: 0 of 1200 tasks"},
			{"-enabled -name fw", 3, "Listed: 3 of 1200 tasks"},
		} {
			args := append([]string{"status", source}, strings.Fields(tt.flags)...)
			text, _ := commandOf(t, exitOK, args...)
			all := tt.rows != 5 && !strings.Contains(tt.has, "More") && !strings.Contains(tt.flags, "-limit")
			if all && strings.Contains(text, "More tasks follow") {
				t.Errorf("%s: status %s lists all selected tasks, and prints %.3000s", where, tt.flags, text)
			}
			if rows := len(row.FindAllString(text, -1)); rows != tt.rows || !strings.Contains(text, tt.has) || strings.Contains(text, "Listed") == (tt.flags == "") {
				t.Errorf("%s: status %s lists %d tasks, want %d and %q: %.3000s", where, tt.flags, rows, tt.rows, tt.has, text)
			}
			out, _ := commandOf(t, exitOK, append(args, "-json")...)
			var o apispec.Overview
			if err := json.Unmarshal([]byte(out), &o); err != nil || len(o.Tasks) != tt.rows || o.Counts.All != 1200 { // one document
				t.Errorf("%s: status %s -json: %v, %d tasks, %+v", where, tt.flags, err, len(o.Tasks), o.Counts)
			}
		}
	}
}

func TestStatus_FlagThatSelectsNothingKnownIsRefused(t *testing.T) {
	for flags, want := range map[string]string{
		"-phase=broken": `invalid value "broken" for flag -phase: use applied, soon, running, waiting, stopped, failing, unreadable, drifted, unverified, removed, attention`,
		"-limit=few":    `invalid value "few" for flag -limit: give a number from 0 on`,
		"-limit=-1":     `invalid value "-1" for flag -limit: give a number from 0 on`,
		"-sort=size":    `invalid value "size" for flag -sort: use name, phase, last, due, or one of them with - before it`,
		"-enabled=yes":  `invalid boolean value "yes" for -enabled: use true or false`,
	} {
		_, errs := commandOf(t, exitFlags, "status", flags)
		wantText(t, errs, want)
	}
}

func TestStatus_SearchFindsWhatOnlyTheTaskFilesHave(t *testing.T) {
	now := time.Now().UTC()
	path, _, _ := stored(t, now, []situation{{name: "lb", task: state.Task{Applied: state.Applied{At: now}, Reason: state.Reason{Code: state.ReasonUnchanged, Text: "nothing changed"}}}})
	store, files := "-store=sqlite:"+path, "-config-dir="+filepath.Dir(path)
	if err := os.Mkdir(filepath.Join(filepath.Dir(path), "m"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		rows int
	}{
		{[]string{store, "-search=tasks.hcl"}, 0},
		{[]string{store, files, "-search=tasks.hcl"}, 1},
		{[]string{store, files, "-search=service web LB"}, 1},
		{[]string{store, "-search=nothing changed"}, 1},
		{[]string{store, files, "-search=no such word"}, 0},
	} {
		out, _ := commandOf(t, exitOK, append([]string{"status"}, tt.args...)...)
		if rows := strings.Count(out, "\nlb "); rows != tt.rows {
			t.Errorf("status %s lists %d tasks, want %d: %s", tt.args, rows, tt.rows, out)
		}
	}
}

func TestStatus_PartIsPrintedBeforeTheNextIsRead(t *testing.T) {
	var out bytes.Buffer
	part := func(names ...string) apispec.Overview {
		o := apispec.Overview{Counts: &apispec.TaskCounts{All: 6}, Bundle: new("0123456789abcdef")}
		for _, name := range names {
			o.Tasks = append(o.Tasks, apispec.TaskOverview{Name: name, Phase: apispec.PhaseApplied, Reason: apispec.Reason{Text: "nothing changed"}})
		}
		return o
	}
	broken := errors.New("connection refused")
	parts := func(yield func(apispec.Overview, error) bool) {
		yield(part("a", "b"), nil)
		if !strings.Contains(out.String(), "\na ") {
			t.Errorf("the first part is not printed: %s", &out)
		}
		yield(part("c", "d", "e", "f"), nil)
		yield(apispec.Overview{}, broken)
	}
	if _, err := (&app{stdout: &out}).printStatus(parts, time.Now()); !errors.Is(err, broken) {
		t.Errorf("the error of the last part: %v", err)
	}
	if strings.Count(out.String(), "Bundle: ") != 1 {
		t.Errorf("what concerns all tasks is not printed once: %s", &out)
	}
	out.Reset()
	if _, err := (&app{stdout: &out}).printStatus(func(yield func(apispec.Overview, error) bool) {
		yield(part("a", "b"), nil)
		yield(part("c", "d", "e", "f"), nil)
	}, time.Now()); err != nil {
		t.Error(err)
	}
	wantText(t, out.String(), "6 tasks are applied (a, b, c and 3 more): nothing changed")
}
