package web

import (
	"bytes"
	"testing"
)

// What browsers get of our own files has no comments, and nothing of others is changed.
func TestStatic_OwnFilesAreMinified(t *testing.T) {
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
		if len(sent) < len(raw)/4 || len(sent) > len(raw)*9/10 || bytes.Contains(sent, []byte("/*")) || bytes.Contains(sent, []byte("\n  ")) {
			t.Errorf("of %d bytes of %s, %d are sent", len(raw), own, len(sent))
		}
	}
}
