// Package support collects what a report about a problem needs into one archive, without
// secrets.
package support

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// partLimit is how long one part may take: the archive is also needed if a service does
// not answer.
const partLimit = 30 * time.Second

// Part is a file of the archive.
type Part struct {
	Name  string // its path in the archive
	About string // what it contains
	Last  int    // how many bytes of the end are kept, in whole lines; all if 0
	// Read returns the contents: text ([]byte), or what is encoded as JSON.
	Read func(context.Context) (any, error)
}

// File is a part in the list of the archive.
type File struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Size    int    `json:"size"`
	Problem string `json:"problem,omitempty"` // why it is missing
}

// Contents is the name of the file that lists the others.
const Contents = "CONTENTS.txt"

// Write writes the archive, a zip file with all parts below a folder, and returns its
// list. A part that cannot be read is listed with the reason.
func Write(ctx context.Context, to io.Writer, folder string, now time.Time, parts []Part, clean *Cleaner) ([]File, error) {
	archive := zip.NewWriter(to)
	add := func(name string, content []byte) error {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: folder + "/" + name, Method: zip.Deflate, Modified: now})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return fmt.Errorf("write %s into the archive: %w", name, err)
		}
		return nil
	}
	var files []File
	for _, p := range parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		file := File{Name: p.Name, About: p.About}
		content, err := p.read(ctx)
		if err != nil {
			file.Problem = string(clean.Clean([]byte(err.Error())))
		} else {
			content = lastLines(clean.Clean(content), p.Last) // in this order: half a secret is not recognised
			file.Size = len(content)
			if err := add(p.Name, content); err != nil {
				return nil, err
			}
		}
		files = append(files, file)
	}
	if err := add(Contents, list(files)); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("write the archive: %w", err)
	}
	return files, nil
}

// lastLines returns the end of a text, in whole lines and at most n bytes; all of it if n is 0.
func lastLines(text []byte, n int) []byte {
	if n == 0 || len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	return text[bytes.IndexByte(text, '\n')+1:]
}

func (p Part) read(ctx context.Context) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, partLimit)
	defer stop()
	content, err := p.Read(ctx)
	if err != nil {
		return nil, err
	}
	if text, ok := content.([]byte); ok {
		return text, nil
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false) // the Cleaner reads it
	if err := enc.Encode(content); err != nil {
		return nil, fmt.Errorf("encode %s: %w", p.Name, err)
	}
	return text.Bytes(), nil
}

// list returns the text of the list.
func list(files []File) []byte {
	var b strings.Builder
	b.WriteString("What `terrapulse support-bundle` has collected. Secrets are replaced by " + removed + ".\nRead the files before you send them: they name services, addresses and resources.\n\n")
	for _, f := range files {
		fmt.Fprintf(&b, "%s (%d bytes): %s\n", f.Name, f.Size, f.About)
		if f.Problem != "" {
			fmt.Fprintf(&b, "  missing: %s\n", f.Problem)
		}
	}
	return []byte(b.String())
}
