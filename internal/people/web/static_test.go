package web

import (
	"bytes"
	"testing"
)

// What browsers get of our own files has no comments, and nothing of others is changed.
func TestStatic_OwnFilesAreSentCompact(t *testing.T) {
	for name, own := range map[string]string{allScripts: ownScript, styleSheet: styleSheet} {
		raw, err := files.ReadFile("static/" + own)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := readStatic(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == allScripts {
			for _, script := range scripts[:len(scripts)-1] {
				other, err := files.ReadFile("static/" + script)
				if err != nil || !bytes.Contains(sent, other) {
					t.Errorf("%s is not sent as it is: %v", script, err)
				}
				sent = bytes.Replace(sent, other, nil, 1)
			}
		}
		for line := range bytes.Lines(raw) {
			if bytes.Count(line, []byte("`"))%2 != 0 {
				t.Errorf("a text in %s has several lines: %s", own, line)
			}
		}
		if len(sent) < len(raw)*2/3 || len(sent) >= len(raw) || bytes.Contains(sent, []byte("/*")) || bytes.Contains(sent, []byte("\n ")) {
			t.Errorf("of %d bytes of %s, %d are sent", len(raw), own, len(sent))
		}
	}
}
