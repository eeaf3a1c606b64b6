// Package export writes events and entries of the audit record for other programs: as lines of JSON, or as
// CSV for spreadsheets. It keeps nothing of what it has written.
package export

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// Format is a format of an export.
type Format string

// The formats.
const (
	JSON Format = "jsonl"
	CSV  Format = "csv"
)

// ContentType is what an answer of HTTP with the format is.
func (f Format) ContentType() string {
	if f == CSV {
		return "text/csv; charset=utf-8; header=present"
	}
	return "application/jsonl; charset=utf-8"
}

// Column is a column of CSV.
type Column[T any] struct {
	Name string
	Of   func(T) string
}

// Writer writes rows.
type Writer[T any] struct {
	lines   *json.Encoder // nil for CSV
	table   *csv.Writer
	columns []Column[T]
	begun   bool
}

// New returns a writer. Columns are those of CSV.
func New[T any](w io.Writer, f Format, columns []Column[T]) *Writer[T] {
	if f == CSV {
		return &Writer[T]{table: csv.NewWriter(w), columns: columns}
	}
	return &Writer[T]{lines: json.NewEncoder(w)}
}

// Write writes rows. CSV without rows has the names of the columns.
func (w *Writer[T]) Write(rows []T) error {
	if w.lines != nil {
		for _, row := range rows {
			if err := w.lines.Encode(row); err != nil {
				return fmt.Errorf("write a line: %w", err)
			}
		}
		return nil
	}
	cells := make([]string, len(w.columns))
	write := func(of func(Column[T]) string) {
		for i, c := range w.columns {
			cells[i] = of(c)
		}
		_ = w.table.Write(cells) // Error returns it
	}
	if !w.begun {
		write(func(c Column[T]) string { return c.Name })
		w.begun = true
	}
	for _, row := range rows {
		write(func(c Column[T]) string { return cell(c.Of(row)) })
	}
	w.table.Flush()
	if err := w.table.Error(); err != nil {
		return fmt.Errorf("write a row: %w", err)
	}
	return nil
}

// formulas are the characters with which spreadsheets begin a formula.
const formulas = "=+-@\t\r\n＝＋－＠"

// cell returns a text that a spreadsheet takes for a text. Others than the reader can choose what events
// say, such as the name of a service.
func cell(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' { // a terminal might obey it
			return -1
		}
		return r
	}, text)
	if begin := strings.TrimLeft(text, " '\""); begin != "" && strings.ContainsRune(formulas, []rune(begin)[0]) {
		return "'" + text
	}
	return text
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// Events are the columns of events.
var Events = []Column[apispec.LatestEvent]{
	{"time", func(e apispec.LatestEvent) string { return stamp(e.At) }},
	{"level", func(e apispec.LatestEvent) string { return string(e.Level) }},
	{"kind", func(e apispec.LatestEvent) string { return e.Kind }},
	{"subject", func(e apispec.LatestEvent) string { return e.Subject }},
	{"task", func(e apispec.LatestEvent) string { return apispec.Deref(e.Task) }},
	{"run", func(e apispec.LatestEvent) string { return apispec.Deref(e.Run) }},
	{"by", func(e apispec.LatestEvent) string { return apispec.Deref(e.By) }},
	{"text", func(e apispec.LatestEvent) string { return e.Text }},
	{"details", func(e apispec.LatestEvent) string { return strings.Join(apispec.Deref(e.Details), "\n") }},
	{"id", func(e apispec.LatestEvent) string { return e.ID }},
}

// Audit are the columns of the audit record.
var Audit = []Column[apispec.AuditEntry]{
	{"time", func(e apispec.AuditEntry) string { return stamp(e.At) }},
	{"action", func(e apispec.AuditEntry) string { return string(e.Action) }},
	{"task", func(e apispec.AuditEntry) string { return apispec.Deref(e.Task) }},
	{"by", func(e apispec.AuditEntry) string { return e.By }},
	{"proof", func(e apispec.AuditEntry) string { return e.Proof }},
	{"account", func(e apispec.AuditEntry) string { return apispec.Deref(e.Account) }},
	{"from", func(e apispec.AuditEntry) string { return apispec.Deref(e.From) }},
	{"via", func(e apispec.AuditEntry) string { return apispec.Deref(e.Via) }},
	{"request", func(e apispec.AuditEntry) string { return apispec.Deref(e.Request) }},
	{"run", func(e apispec.AuditEntry) string { return apispec.Deref(e.Run) }},
	{"plan", func(e apispec.AuditEntry) string { return apispec.Deref(e.Plan) }},
	{"detail", func(e apispec.AuditEntry) string { return apispec.Deref(e.Detail) }},
	{"comment", func(e apispec.AuditEntry) string { return apispec.Deref(e.Comment) }},
	{"id", func(e apispec.AuditEntry) string { return e.ID }},
}
