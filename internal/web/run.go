package web

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	terminal "github.com/buildkite/terminal-to-html/v3"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// runPage is the page of one run.
type runPage struct {
	Run      apispec.Run `json:"run"`
	Timeline []moment    `json:"timeline"`
}

// moment is one step of a run.
type moment struct {
	Name  string        `json:"name"`
	At    time.Time     `json:"at"`
	After time.Duration `json:"-"` // the previous one
}

// output is a chunk of what Terraform printed.
type output struct {
	HTML  template.HTML
	Next  string // address of the next chunk; "" if this is the last
	Nonce string
}

func (p *pages) run(r *http.Request) (view, error) {
	name, id := r.PathValue("name"), r.PathValue("id")
	run, err := read(r.Context(), p.source, "run/"+name+"/"+id, func(ctx context.Context) (apispec.Run, error) { return p.source.Run(ctx, name, id) })
	if err != nil {
		return view{}, err
	}
	page := runPage{Run: run, Timeline: timelineOf(run)}
	return view{title: name + " " + id[:min(len(id), 8)], template: "run", topic: name, data: page, still: run.Ended != nil}, nil
}

// timelineOf are the steps that a run has made.
func timelineOf(r apispec.Run) []moment {
	var all []moment
	add := func(name string, at *time.Time) {
		if at == nil {
			return
		}
		m := moment{Name: name, At: *at}
		if n := len(all); n > 0 {
			m.After = at.Sub(all[n-1].At)
		}
		all = append(all, m)
	}
	add("change seen", r.Seen)
	add("decided", &r.Created)
	add("claimed", r.Started)
	if r.Wait != nil {
		add("waits", &r.Wait.Since)
	}
	add(string(r.State), r.Ended)
	return all
}

// maxChunks is how many chunks of output one answer has at most.
const maxChunks = 16

// output sends the output of a run from an offset, as a fragment of its page.
func (p *pages) output(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("name"), r.PathValue("id")
	offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
	if err != nil || offset < 0 {
		offset = 0
	}
	var text strings.Builder
	var chunk apispec.RunOutputResponse
	for range maxChunks {
		key := fmt.Sprintf("output/%s/%s/%d", name, id, offset)
		chunk, err = read(r.Context(), p.source, key, func(ctx context.Context) (apispec.RunOutputResponse, error) {
			return p.source.Output(ctx, name, id, offset)
		})
		if err != nil {
			p.fail(w, r, err)
			return
		}
		text.WriteString(chunk.Output)
		offset = chunk.NextOffset
		if chunk.Ended || chunk.Output == "" {
			break
		}
	}
	o := output{HTML: template.HTML(terminal.Render([]byte(text.String())))} // which escapes it
	if !chunk.Ended {
		o.Next = fmt.Sprintf("%stasks/%s/runs/%s/output?offset=%d", Root, name, id, offset)
	}
	p.fragment(w, r, "output", func(nonce string) any { o.Nonce = nonce; return o })
}
