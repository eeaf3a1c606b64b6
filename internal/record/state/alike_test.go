package state

import "testing"

func TestAlike_LeavesOutTheNameOfTheTaskAndNoPartOfAWord(t *testing.T) {
	for _, tt := range []struct{ task, text, want string }{
		{"fw-1", "apply of task fw-1: error on modules/fw-1/main.tf", "apply of task TASK: error on modules/TASK/main.tf"},
		{"fw-1", "fw-1", "TASK"},
		{"fw-1", "fw-10 and my-fw-1", "fw-10 and my-fw-1"},
		{"a", "a dial of a", "TASK dial of TASK"},
		{"a", "aa", "aa"},
		{"", "no route", "no route"},
	} {
		if got := Alike(tt.text, tt.task); got != tt.want {
			t.Errorf("%s of %s: %s, want %s", tt.text, tt.task, got, tt.want)
		}
	}
}
