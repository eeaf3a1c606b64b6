package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// parseJSON reads JSON. Numbers keep their text, so that no precision is lost.
func parseJSON(file string, src []byte) (*node, []Diagnostic) {
	r := jsonReader{file: file, src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1}
	r.dec.UseNumber()
	root, err := r.value(0)
	if err == nil {
		if _, more := r.dec.Token(); more == nil {
			err = errors.New("more than one value")
		} else if !errors.Is(more, io.EOF) {
			err = more
		}
	}
	if err == nil && root.kind != kindObject {
		err = errors.New("the top level is not an object")
	}
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("unexpected end of the file")
		}
		offset := r.dec.InputOffset()
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset > 0 {
			offset = syntax.Offset - 1
		}
		return nil, append(r.diags, Diagnostic{Position: r.at(offset), Problem: "not valid JSON: " + err.Error()})
	}
	return root, r.diags
}

type jsonReader struct {
	file  string
	src   []byte
	dec   *json.Decoder
	diags []Diagnostic

	// how far at has counted lines
	offset, lineStart int64
	line              int
}

// at returns the position of the first character at or after offset that is
// not space or punctuation between values. It counts on from where it was.
func (r *jsonReader) at(offset int64) Position {
	size := int64(len(r.src))
	for offset < size && strings.IndexByte(" \t\r\n,:", r.src[offset]) >= 0 {
		offset++
	}
	offset = min(offset, size)
	if offset < r.offset {
		r.offset, r.lineStart, r.line = 0, 0, 1
	}
	for ; r.offset < offset; r.offset++ {
		if r.src[r.offset] == '\n' {
			r.line++
			r.lineStart = r.offset + 1
		}
	}
	return Position{File: r.file, Line: r.line, Column: int(offset-r.lineStart) + 1}
}

func (r *jsonReader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	n := &node{pos: r.at(r.dec.InputOffset())}
	t, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		n.kind = kindNull
	case bool:
		n.kind, n.text = kindBool, fmt.Sprint(t)
	case json.Number:
		n.kind, n.text = kindNumber, t.String()
	case string:
		n.kind, n.text = kindString, t
	case json.Delim:
		if t == '[' {
			n.kind = kindList
			err = r.list(n, depth)
		} else {
			n.kind = kindObject
			err = r.object(n, depth)
		}
	}
	return n, err
}

func (r *jsonReader) list(n *node, depth int) error {
	for r.dec.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := r.dec.Token()
	return err
}

func (r *jsonReader) object(n *node, depth int) error {
	seen := map[string]bool{}
	for r.dec.More() {
		e := entry{pos: r.at(r.dec.InputOffset())}
		key, err := r.dec.Token()
		if err != nil {
			return err
		}
		e.key, _ = key.(string)
		if e.value, err = r.value(depth + 1); err != nil {
			return err
		}
		if seen[e.key] {
			n.set(e)
			continue
		}
		seen[e.key] = true
		n.entries = append(n.entries, e)
	}
	_, err := r.dec.Token()
	return err
}
