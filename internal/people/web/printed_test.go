package web

import (
	"strings"
	"testing"
)

func TestPrinted_NoSequenceMeansAnything(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"text":                 {"a <b> & 'c' \"d\"", `a &lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;`},
		"color":                {"\x1b[31mred\x1b[0m plain", `red plain`},
		"not hidden":           {"\x1b[31;41mhidden", `hidden`},
		"not concealed":        {"\x1b[8mhidden", `hidden`},
		"across lines":         {"\x1b[32ma\nb\x1b[0m\nc", "a\nb\nc"},
		"no moves":             {"destroy all\x1b[2K\x1b[1Aharmless\x1b[2J", "destroy allharmless"},
		"no overwriting":       {"destroy all\rharmless\r\nnext", "destroy all\nharmless\nnext"},
		"no erasing":           {"destroy all\b\b\b", "destroy all"},
		"no links":             {"\x1b]8;;javascript:alert(1)\x1b\\text\x1b]8;;\x1b\\", "text"},
		"no pictures":          {"\x1b]1338;url=https://evil.example/x.png\aafter", "after"},
		"no title":             {"\x1b]0;title\aafter", "after"},
		"unending title":       {"\x1b]0;destroy all\nnext", "]0;destroy all\nnext"},
		"markup in a sequence": {"\x1b[31<img src=x>mtext", "[31&lt;img src=x&gt;mtext"},
		"markup in numbers":    {"\x1b[\"onload=m", "[&#34;onload=m"},
		"a set of characters":  {"\x1b(Btext", "text"},
		"direction":            {"a\u202eb", "a\ufffdb"},
		"Terraform's signs":    {"  + create\n  - \"old\"\n  ~ x", "<span class=\"added\">  + create</span>\n<span class=\"removed\">  - &#34;old&#34;</span>\n<span class=\"altered\">  ~ x</span>"},
		"lists":                {"- Using hashicorp/local", "- Using hashicorp/local"},
		"errors in color":      {"\x1b[31mError: \x1b[0mno route", `<span class="wrong">Error: no route</span>`},
		"Terraform's errors":   {"╷\n│ Error: no route\n╵", "╷\n<span class=\"wrong\">│ Error: no route</span>\n╵"},
	} {
		if got := printed(c.text); string(got) != c.want {
			t.Errorf("%s: %q is shown as\n%s\nwant\n%s", name, c.text, got, c.want)
		}
	}
}

func TestPrinted_ContinuesWhereverATextIsCut(t *testing.T) {
	text := "one\n\x1b[1;31mError: été €10 𝄞\x1b[22m and\r\nmore\x1b]8;;https://x\x1b\\ link\x1b[0m\n\x1b[38;5;40mgreen\nend"
	want := printed(text)
	for cut := range len(text) + 1 {
		// A cut is where the API cuts: between characters.
		if cut < len(text) && text[cut]&0xc0 == 0x80 {
			continue
		}
		first := whole(text[:cut])
		if got := printed(first) + printed(text[len(first):]); got != want {
			t.Errorf("cut at %d, shown from %d:\n%s\nwant\n%s", cut, len(first), got, want)
		}
	}
}

func TestPrinted_OneLongLineIsNotKeptBack(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine)
	for text, want := range map[string]int{long: len(long), long + "\x1b[3": len(long), long + "\x1b": len(long), long + "\x1b[31mred": len(long) + 8, "a\nb": 2, "b": 0} {
		if got := len(whole(text)); got != want {
			t.Errorf("of %d bytes %d are shown, want %d", len(text), got, want)
		}
	}
}

func TestPlain_HasNoSequences(t *testing.T) {
	if got := plain("\x1b[31mred\x1b[0m \x1b]8;;https://x\ahere\x1b]8;;\a\n\tend\x1b"); got != "red here\n\tend" {
		t.Errorf("%q", got)
	}
}
