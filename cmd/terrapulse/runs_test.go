package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestRuns_OfOneTaskOrOfAllThatFlagsSelect(t *testing.T) {
	now := time.Now().UTC()
	var all []situation
	var runs []state.Change
	ids := make([]string, 6) // in turns of web and db, the oldest first
	for i := range ids {
		ids[i] = fmt.Sprintf("0193a7c0-%04d-7000-8000-000000000000", i)
	}
	for n, name := range []string{"web", "db"} {
		s := situation{name: name, task: state.Task{Reason: state.Reason{Code: state.ReasonUnchanged, Text: "nothing changed"}}}
		for i := n; i < len(ids); i += 2 {
			s.task.Ended.IDs = append(s.task.Ended.IDs, ids[i])
			run := state.Run{ID: ids[i], Kind: state.KindApply, Task: name, State: state.RunSucceeded, Created: now, Times: state.Times{Started: now, Ended: now}}
			runs = append(runs, state.Create(state.RunKey(name, run.ID), state.Encode(run)))
		}
		all = append(all, s)
	}
	path, store, cfg := stored(t, now, all)
	if _, err := store.Apply(t.Context(), runs...); err != nil {
		t.Fatal(err)
	}
	for where, source := range map[string]string{"store": "-store=sqlite:" + path, "API": "-http-addr=" + serveStored(t, store, cfg)} {
		for _, tt := range []struct {
			args string
			runs []int // indexes of ids
		}{
			{"", []int{5, 4, 3, 2, 1, 0}},
			{"-limit 2", []int{5, 4}},
			{"-after " + ids[3], []int{5, 4}},
			{"-after " + strings.ToUpper(ids[3][:shortID]), []int{5, 4}},
			{"web", []int{4, 2, 0}},
			{"-limit 1 web", []int{4}},
			{"-after " + ids[0] + " web", []int{4, 2}},
			{"-after " + ids[5] + " db", nil},
		} {
			args := append([]string{"runs", source, "-json"}, strings.Fields(tt.args)...)
			out, _ := commandOf(t, exitOK, args...)
			var got []apispec.Run
			if err := json.Unmarshal([]byte(out), &got); err != nil || !strings.HasPrefix(out, "[") {
				t.Fatalf("%s: runs %s -json: %v: %s", where, tt.args, err, out)
			}
			var indexes []int
			for _, run := range got {
				for i := range ids {
					if ids[i] == run.ID && run.Task == []string{"web", "db"}[i%2] {
						indexes = append(indexes, i)
					}
				}
			}
			if fmt.Sprint(indexes) != fmt.Sprint(tt.runs) {
				t.Errorf("%s: runs %s lists %v, want %v", where, tt.args, indexes, tt.runs)
			}
		}
		text, _ := commandOf(t, exitOK, "runs", source)
		wantText(t, text, "CHANGES  TASK\n", "-        db\n", "-        web\n")
		if text, _ = commandOf(t, exitOK, "runs", source, "web"); strings.Contains(text, "TASK") {
			t.Errorf("%s: the runs of one task name it: %s", where, text)
		}
	}
	if err := state.SaveLog(t.Context(), store, "web", ids[4], []byte("Apply complete!\n"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	at := "-store=sqlite:" + path
	for _, name := range []string{"web", ids[4], ids[4][:shortID], strings.ToUpper(ids[4][:shortID])} {
		if text, _ := commandOf(t, exitOK, "logs", at, name); text != "Apply complete!\n" {
			t.Errorf("logs %s prints %s", name, text)
		}
	}
	text, _ := commandOf(t, exitOK, "logs", at, "-json", "web")
	var log struct {
		Run    struct{ ID string }
		Output string
	}
	if err := json.Unmarshal([]byte(text), &log); err != nil || log.Run.ID != ids[4] || log.Output != "Apply complete!\n" {
		t.Errorf("the log in JSON: %+v, %v", log, err)
	}
	_, errs := commandOf(t, exitError, "logs", at, ids[4][:leastID])
	wantText(t, errs, "is the beginning of 6 runs", ids[5], "write more of the id")
	for _, limit := range []string{"0", "201"} {
		_, errs := commandOf(t, exitFlags, "runs", "-limit="+limit)
		wantText(t, errs, "-limit is "+limit+": give a number from 1 to 200")
	}
	commandOf(t, exitMissing, "runs", "web", "db")
}
