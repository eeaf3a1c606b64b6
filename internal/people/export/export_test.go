package export

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestCSV_SpreadsheetsTakeNothingForAFormula(t *testing.T) {
	hostile := []string{`=HYPERLINK("http://evil","x")`, "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", `"=1`, "'=1", "＝1+1"}
	for _, text := range hostile {
		var out strings.Builder
		w := New(&out, CSV, Events)
		if err := w.Write([]apispec.LatestEvent{{ID: "1", At: time.Unix(0, 0), Text: text, Task: &text, By: &text, Details: &[]string{text, "=2"}}}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%q: %v, %v", text, rows, err)
		}
		for i, c := range rows[1] {
			if trimmed := strings.TrimLeft(c, " \""); trimmed != "" && strings.ContainsAny(trimmed[:1], "=+-@\t\r\n") || strings.HasPrefix(trimmed, "＝") {
				t.Errorf("the column %s has %q", rows[0][i], c)
			}
		}
	}
	for _, text := range []string{"run failed", "web: -2", "", "a=b"} {
		if cell(text) != text {
			t.Errorf("%q becomes %q", text, cell(text))
		}
	}
}

func TestExport_OfNothingHasTheColumnsAlone(t *testing.T) {
	var table, lines strings.Builder
	if err := New(&table, CSV, Audit).Write(nil); err != nil || !strings.HasPrefix(table.String(), "time,action,task,by") || strings.Count(table.String(), "\n") != 1 {
		t.Errorf("%q, %v", table.String(), err)
	}
	if err := New(&lines, JSON, Audit).Write(nil); err != nil || lines.String() != "" {
		t.Errorf("%q, %v", lines.String(), err)
	}
}

func TestExport_EachRowIsALineOfJSON(t *testing.T) {
	var out strings.Builder
	w := New(&out, JSON, Audit)
	for _, id := range []string{"1", "2"} {
		if err := w.Write([]apispec.AuditEntry{{ID: id, By: "a\nb"}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var e apispec.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.ID != []string{"1", "2"}[i] {
			t.Errorf("%q, %v", line, err)
		}
	}
}
