package tutorial

import "testing"

func TestFits(t *testing.T) {
	const page = "Leader: …\n\nTASK  PHASE    LAST RUN\nweb   applied  succeeded 1s ago\n"
	for output, fits := range map[string]bool{
		"Leader: vm-1\n\nTASK  PHASE    LAST RUN\nweb   applied  succeeded 12m3s ago\n":        true,
		"Leader: vm-1\n\nTASK   PHASE   LAST RUN\nweb    applied succeeded 1s ago\n\n":         true,
		"Leader: vm-1\n\nTASK  PHASE    LAST RUN\nweb   failed   succeeded 1s ago\n":           false,
		"Leader: vm-1\n\nTASK  PHASE    LAST RUN\nweb   applied  succeeded 1s ago\nand more\n": false,
		"Leader: vm-1\n\nTASK  PHASE    LAST RUN\n":                                            false,
		"": false,
	} {
		if Fits(output, page) != fits {
			t.Errorf("want %v of what is printed:\n%s", fits, output)
		}
	}
}

func TestFits_WhatVaries(t *testing.T) {
	for _, c := range []struct {
		output, page string
		fits         bool
	}{
		{"at 2026-11-27T00:51:55Z", "at 2030-01-02T03:04:05Z", true},
		{"Plan f8623ac7-25b1-497a-98b0-10c704a89781 or 71b9170d", "Plan 00023ac7-25b1-497a-98b0-10c704a89781 or f8623ac7", true},
		{"Plan b6db8ae3-68e1-427d-afc3-1c96f0d7b950", "Plan 71b9170d-53f9-47fa-a772-c07b0232899b", true}, // 427d is no duration
		{"1 to destroy", "2 to destroy", false},
		{"first\nsecond\nlast", "first\n…\nlast", true},
		{"first\nlast", "first\n…\nlast", true},
		{"first\nsecond", "first\n…\nlast", false},
		{"1 + 1 (a.b)", "1 + 1 (a.b)", true},
		{"something", "", false},
	} {
		if Fits(c.output, c.page) != c.fits {
			t.Errorf("%q as %q: want %v", c.output, c.page, c.fits)
		}
	}
}

func TestParse(t *testing.T) {
	steps, err := Parse("# Page\n\n```yaml title=\"a/b.yaml\"\nx: 1\n```\n\n```yaml\nnot: written\n```\n\n<!-- test: repeat -->\n```console\n$ one \\\n  more\nprints\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{{Line: 3, File: "a/b.yaml", Text: "x: 1\n"}, {Line: 13, Text: "one \\\n  more", Want: "prints\n", Special: "repeat"}}
	if len(steps) != len(want) || steps[0] != want[0] || steps[1] != want[1] {
		t.Errorf("got %+v", steps)
	}
	for _, wrong := range []string{
		"```console\n$ one\n", "```console\nno command\n```\n", "```sh\none\n```\n", "<!-- test: maybe -->\n```console\n$ one\n```\n",
		"<!-- test: repeat -->\nno block\n", "<!-- test: repeat -->\n```console\n$ one\n$ two\n```\n",
	} {
		if steps, err := Parse(wrong); err == nil {
			t.Errorf("%q is accepted: %+v", wrong, steps)
		}
	}
}
