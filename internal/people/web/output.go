package web

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// output is a part of what Terraform printed in a run.
type output struct {
	HTML  template.HTML
	Next  string // address of what follows; "" if this is the last part
	More  bool   // what follows is there already
	Every string // how often to ask for what follows, as a trigger of htmx
	Part  string // address of the page of the run that begins with what follows
	Error string // why it cannot be read now
	Nonce string

	Nothing bool // was printed
}

// With returns the part for a page with a nonce.
func (o output) With(nonce string) output { o.Nonce = nonce; return o }

// offsetOf is where in the output of a run a part begins, by the query of its address.
func offsetOf(query url.Values) int {
	offset, _ := strconv.Atoi(query.Get("offset"))
	return max(offset, 0)
}

// fromOffset is the query of an address of what begins there.
func fromOffset(offset int) string { return fmt.Sprintf("?offset=%d", offset) }

// partOf reads a part of the output of a run.
func (p *pages) partOf(ctx context.Context, name, id string, offset int) (output, error) {
	chunk, err := p.chunk(ctx, name, id, offset)
	if err != nil {
		return output{}, err
	}
	text := chunk.Output
	if !chunk.Ended {
		text = whole(text)
	}
	o := output{HTML: printed(text), Nothing: chunk.Ended && chunk.NextOffset == 0}
	if !chunk.Ended {
		here, next := runURL(name, id), fromOffset(chunk.NextOffset-(len(chunk.Output)-len(text)))
		o.Next, o.Part = here+"/output"+next, here+next
		o.More, o.Every = full(chunk), fmt.Sprintf("every %dms", p.Poll.Milliseconds())
	}
	return o, nil
}

// full reports whether there is more to be read at once.
func full(chunk apispec.RunOutputResponse) bool { return !chunk.Ended && len(chunk.Output) >= 200<<10 }

// chunk reads output from an offset. Those who follow a run are at the same place soon
// and share what is read.
func (p *pages) chunk(ctx context.Context, name, id string, offset int) (apispec.RunOutputResponse, error) {
	key := "output/" + name + "/" + id
	if kept, age := p.source.recent(key); age < p.source.fresh {
		if chunk, ok := kept.value.(apispec.RunOutputResponse); ok {
			if part, ok := partFrom(chunk, offset); ok {
				return part, nil
			}
		}
	}
	return again(ctx, p.source, fmt.Sprintf("%s/%d", key, offset), func(ctx context.Context) (apispec.RunOutputResponse, error) {
		era := p.source.era.Load()
		chunk, err := p.source.Output(ctx, name, id, offset)
		if err == nil {
			p.source.keep(era, key, chunk, nil)
		}
		return chunk, err
	})
}

// partFrom is what a chunk has from an offset on.
func partFrom(chunk apispec.RunOutputResponse, offset int) (apispec.RunOutputResponse, bool) {
	switch {
	case offset == chunk.Offset:
		return chunk, true
	case offset < chunk.Offset || offset > chunk.NextOffset, full(chunk), // more may be there
		len(chunk.Output) != chunk.NextOffset-chunk.Offset: // it was no UTF-8: its bytes were replaced
		return chunk, false
	}
	chunk.Output, chunk.Offset = chunk.Output[offset-chunk.Offset:], offset
	return chunk, true
}

// output sends a part of the output of a run, for its page.
func (p *pages) output(w http.ResponseWriter, r *http.Request) {
	name, id, offset := r.PathValue("name"), r.PathValue("id"), offsetOf(r.URL.Query())
	switch {
	case asJSON(r):
		chunk, err := p.chunk(r.Context(), name, id, offset)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		p.render(w, r, http.StatusOK, view{data: chunk})
		return
	case r.Header.Get("HX-Request") != "true":
		http.Redirect(w, r, runURL(name, id)+fromOffset(offset), http.StatusSeeOther)
		return
	}
	o, err := p.partOf(r.Context(), name, id, offset)
	if err != nil { // the page asks again
		o = output{Next: runURL(name, id) + "/output" + fromOffset(offset), Every: "every 5s", Error: err.Error()}
	}
	p.fragment(w, r, "output", func(nonce string) any { return o.With(nonce) })
}

// download sends all that Terraform printed in a run until now as plain text.
func (p *pages) download(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("name"), r.PathValue("id")
	chunk, err := p.chunk(r.Context(), name, id, 0)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name + "-" + short(id) + ".txt"}))
	for {
		text := chunk.Output
		if full(chunk) {
			text = whole(text)
		}
		if _, err := io.WriteString(w, plain(text)); err != nil || !full(chunk) {
			return
		}
		if chunk, err = p.chunk(r.Context(), name, id, chunk.NextOffset-(len(chunk.Output)-len(text))); err != nil {
			fmt.Fprintf(w, "\n\nThe rest cannot be read: %s\n", err)
			return
		}
	}
}

// runURL is the address of the page of a run.
func runURL(name, id string) string {
	return taskURL(name) + "/runs/" + url.PathEscape(id)
}
