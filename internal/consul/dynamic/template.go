package dynamic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// lookups are the look-ups of one run; each value is looked up once.
type lookups struct {
	*Evaluator
	ctx  context.Context
	cfg  *config.Config
	task string

	found sync.Map // func() (any, error) by the key of a look-up
}

// lookupError is a failed look-up. It contains no values.
type lookupError struct {
	what  string // such as key "a/b"
	cause error
}

func (e *lookupError) Error() string { return e.what + ": " + e.cause.Error() }
func (e *lookupError) Unwrap() error { return e.cause }

// find looks something up, once per run. What is its name for people; the key identifies it.
func find[T any](l *lookups, what, key string, get func(context.Context) (T, error)) (T, error) {
	once, _ := l.found.LoadOrStore(key, sync.OnceValues(func() (any, error) {
		patience := cmp.Or(l.Patience, defaultPatience)
		ctx, cancel := context.WithTimeoutCause(l.ctx, patience, fmt.Errorf("no answer within %s", patience))
		defer cancel()
		value, err := get(ctx)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, &lookupError{what, err}
		}
		return value, nil
	}))
	found, err := once.(func() (any, error))()
	value, _ := found.(T)
	return value, err
}

// with is find with a client that open returns.
func with[C, T any](l *lookups, what, key string, open func(*config.Config) (C, error), get func(context.Context, C) (T, error)) (T, error) {
	return find(l, what, key, func(ctx context.Context) (T, error) {
		client, err := open(l.cfg)
		if err != nil {
			var none T
			return none, err
		}
		return get(ctx, client)
	})
}

func parseText(text string, functions template.FuncMap) (*template.Template, error) {
	t, err := template.New("").Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return nil, explain(err)
	}
	return t, nil
}

// action matches an action of a template, with the white space that it trims.
var action = regexp.MustCompile(`(?s)(\s*{{-\s|{{)(/\*.*?\*/|"(\\.|[^"\\])*"|` + "`[^`]*`" + `|.)*?(\s-}}\s*|}})`)

// errNoValue means that an action has no value.
var errNoValue = errors.New("a value is missing: text/template would write <no value>")

// writer receives the output of a template: each literal text and the output of each action
// separately.
type writer struct {
	strings.Builder
	literal []string // the texts between actions
	pieces  []string
}

func (w *writer) Write(p []byte) (int, error) {
	piece := string(p)
	if !slices.Contains(w.literal, piece) {
		if piece == "<no value>" {
			return 0, errNoValue
		}
		w.pieces = append(w.pieces, piece)
	}
	return w.Builder.Write(p)
}

func (l *lookups) evaluate(s values.Site) values.Result {
	t, err := parseText(s.Text, l.functions(s.Place))
	if err != nil {
		return values.Result{Err: err}
	}
	w := &writer{literal: action.Split(s.Text, -1)}
	if err := t.Execute(w, nil); err != nil {
		return values.Result{Err: explain(err)}
	}
	return values.Result{Text: w.String(), Pieces: w.pieces}
}

// harmless matches the parts of text/template's errors that contain no values, only names from the
// template.
var harmless = regexp.MustCompile(`map has no entry for key "[^"]*"` +
	`|can't evaluate field \w+ in type [\w.*\[\]{} ]+` +
	`|nil pointer evaluating [\w.*\[\]{} ]+` +
	`|function "\w+" not defined` +
	`|wrong number of args for \w+: want (?:at least )?\d+ got \d+`)

// explain removes the looked-up values from an error of a template.
func explain(err error) error {
	var lookup *lookupError
	var own *argumentError
	switch {
	case errors.As(err, &lookup):
		return lookup
	case errors.As(err, &own):
		return own
	case errors.Is(err, errNoValue):
		return errNoValue
	}
	words := harmless.FindString(err.Error())
	switch {
	case words == "":
		return errors.New("the template cannot be evaluated: check its syntax, and the arguments and results of its functions")
	case strings.HasPrefix(words, "map has no entry"):
		return errors.New(words + "; of a secret of Vault's KV engine, version 2, write .Data.data.NAME")
	}
	return errors.New(words)
}
