package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// pages measures by how much the pages enlarge the program, and the memory of start
// with ten tasks after people have read the pages for a while.
func (m *bounds) pages() {
	with, without := m.size(m.program), m.size(m.withoutPages())
	m.row("the program: larger through the pages by", fmt.Sprintf("%.2f of %.1f MB", with-without, with), "<= 1.5 MB", with-without <= 1.5)

	s := newSite(m.b)
	s.register("web", "web-1", 8080, "passing")
	p := m.start(s, m.config(s, `backend "local" {}`, m.tasks(s, 10)))
	eventually(m.b, "all ten tasks are applied", func() bool { return strings.Count(p.stderr.String(), "run succeeded") == 10 })
	ctx, leave := context.WithCancel(m.b.Context())
	var streams []*openStream
	for range 20 {
		streams = append(streams, m.stays(ctx, p.served()+"/ui/news?topic="))
	}
	for range 20 {
		for _, page := range []string{"tasks", "tasks/task0", "runs", "health", "static/style.css"} {
			if text := m.page(p.served() + "/ui/" + page); !strings.Contains(text, "task") {
				m.b.Fatalf("the page %s is %s", page, text)
			}
		}
	}
	time.Sleep(5 * time.Second)
	open := residentMB(m.b, p.Process.Pid, "VmRSS")
	for i, s := range streams {
		if s.lines.Load() == 0 || s.ended.Load() {
			m.b.Fatalf("page %d is not open any more: its stream had %d lines", i, s.lines.Load())
		}
	}
	leave()
	time.Sleep(5 * time.Second)
	rest := residentMB(m.b, p.Process.Pid, "VmRSS")
	p.stop()
	m.row("start with 10 tasks and 20 pages open: memory", fmt.Sprintf("%.1f MB", open), "<= 40 MB", open <= 40)
	m.row("start at rest after that: memory", fmt.Sprintf("%.1f MB", rest), "<= 40 MB", rest <= 40)
}

// size returns the size of a program in MB.
func (m *bounds) size(program string) float64 {
	m.b.Helper()
	info, err := os.Stat(program)
	if err != nil {
		m.b.Fatal(err)
	}
	return float64(info.Size()) / 1e6
}

// withoutPages builds the program with an empty package in place of the pages, which has
// only what others use.
func (m *bounds) withoutPages() string {
	m.b.Helper()
	dir, pages := m.b.TempDir(), filepath.Join(testtools.Root(m.b), "internal", "people", "web")
	stub := filepath.Join(dir, "web.go")
	if err := os.WriteFile(stub, []byte(m.emptied(filepath.Join(pages, "web.go"))), 0o600); err != nil {
		m.b.Fatal(err)
	}
	replace := map[string]string{}
	sources, err := filepath.Glob(filepath.Join(pages, "*.go"))
	if err != nil {
		m.b.Fatal(err)
	}
	for _, source := range sources {
		replace[source] = "" // as if it did not exist
	}
	replace[filepath.Join(pages, "web.go")] = stub
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		m.b.Fatal(err)
	}
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "nopages")
	if err := os.WriteFile(overlay, raw, 0o600); err != nil {
		m.b.Fatal(err)
	}
	if err := testtools.Build(program, "cmd/terrapulse", "-overlay", overlay); err != nil {
		m.b.Fatal(err)
	}
	return program
}

// emptied returns the source of the package of the pages with its options, and with a
// handler that has no page.
func (m *bounds) emptied(file string) string {
	m.b.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		m.b.Fatal(err)
	}
	positions := token.NewFileSet()
	source, err := parser.ParseFile(positions, file, raw, parser.SkipObjectResolution)
	if err != nil {
		m.b.Fatal(err)
	}
	text := func(n ast.Node) string {
		return string(raw[positions.Position(n.Pos()).Offset:positions.Position(n.End()).Offset])
	}
	var kept strings.Builder
	for _, d := range source.Decls {
		general, ok := d.(*ast.GenDecl)
		if ok && (general.Tok == token.CONST || general.Tok == token.TYPE && strings.HasPrefix(text(general), "type Options ")) {
			fmt.Fprintln(&kept, text(general))
		}
	}
	kept.WriteString("func New(context.Context, Options) http.Handler { return http.NotFoundHandler() }\n")
	kept.WriteString("func AsRequest(r *http.Request) *http.Request { return r }\n")
	stub := "package web\n"
	for _, i := range source.Imports {
		if strings.Contains(kept.String(), strings.Trim(path.Base(i.Path.Value), `"`)+".") {
			stub += "import " + i.Path.Value + "\n"
		}
	}
	return stub + kept.String()
}

func (m *bounds) page(url string) string {
	m.b.Helper()
	res, err := http.Get(url)
	if err != nil {
		m.b.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		m.b.Fatal(err)
	}
	return string(raw)
}

// openStream is the stream of an open page.
type openStream struct {
	lines atomic.Int64
	ended atomic.Bool
}

// stays opens the stream of a page, and reads it until ctx ends.
func (m *bounds) stays(ctx context.Context, url string) *openStream {
	m.b.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		m.b.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		m.b.Fatal(err)
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		m.b.Fatalf("%s answers %s with %s, which is no stream", url, res.Status, kind)
	}
	s := new(openStream)
	go func() {
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			s.lines.Add(1)
		}
		s.ended.Store(true)
	}()
	return s
}
