package hcp

import "testing"

func TestPlainLog_RemovesFramesAndStructure(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"nothing yet": {"", ""},
		"framed":      {"\x02Terraform v1.11.4\nInitializing...\n\x03", "Terraform v1.11.4\nInitializing...\n"},
		"unfinished":  {"\x02Terraform v1.11.4\nInit", "Terraform v1.11.4\nInit\n"},
		"structured": {`{"@level":"info","@message":"Plan: 1 to add","type":"change_summary"}` + "\n" +
			`{"@level":"error","@message":"Error: no","diagnostic":{"severity":"error","summary":"no","detail":"not\nhere"}}` + "\n{ not JSON\n",
			"Plan: 1 to add\nError: no\nnot\nhere\n{ not JSON\n"},
		"not UTF-8": {"a\xffb\n", "a\uFFFDb\n"},
	} {
		if got := plainLog([]byte(c.raw)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestErrorIn_ReturnsTheFirstError(t *testing.T) {
	const framed = "Initializing\n\x1b[31m╷\x1b[0m\n\x1b[31m│\x1b[0m \x1b[1mError: \x1b[0mNo such file\n│ \n│   on main.tf line 3:\n│ The path\n│ is wrong.\n╵\n╷\n│ Error: another\n╵\n"
	for text, want := range map[string]string{
		framed:                              "No such file on main.tf line 3: The path is wrong.",
		"Apply complete!\n":                 "",
		"Error: one\n\nError: two\n":        "one",
		"no Error: here\nError: at the end": "at the end",
	} {
		if got := errorIn(text); got != want {
			t.Errorf("%q has the error %q, want %q", text, got, want)
		}
	}
}
