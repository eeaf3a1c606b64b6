package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
)

// tokenCommands make, list and revoke named tokens.
func (a *app) tokenCommands() []command {
	return a.group("token", "Make, list and revoke the tokens of people and programs", `
  A named token identifies a person or program to the HTTP API and the pages.
  What it may do, grants in api.access of the configuration say.`,
		a.tokenCommand("create", "Make a token, and print it once", `Usage: terrapulse token create [flags] NAME

  Makes a token and prints it. Only its hash is kept: it cannot be shown again.
  A grant in api.access gives roles to token:NAME. With -config-file or -store
  it writes to a store, else it uses the API of a running instance.
`, []string{"-expires=90d ci", "-store=sqlite:sync-tasks/terrapulse.db alice"}, (*tokenCommand).create),
		a.tokenCommand("list", "List the tokens", `Usage: terrapulse token list [flags]

  Lists the tokens with their last four characters, without the tokens
  themselves. With -config-file or -store it reads a store, else it uses the API
  of a running instance.
`, []string{"-http-addr=http://localhost:8558"}, (*tokenCommand).list),
		a.tokenCommand("revoke", "Revoke a token", `Usage: terrapulse token revoke [flags] NAME

  Revokes a token: every instance refuses it within a few seconds, and sessions
  of the pages that it has begun end. With -config-file or -store it writes to a
  store, else it uses the API of a running instance.
`, []string{"ci"}, (*tokenCommand).revoke),
	)
}

// tokenCommand is a command about tokens, in a store or through an API.
type tokenCommand struct {
	decisionCommand
	expires string
}

func (a *app) tokenCommand(name, synopsis, usage string, examples []string, do func(c *tokenCommand, at door, name string) (int, error)) command {
	c := &tokenCommand{decisionCommand: decisionCommand{app: a, name: "token " + name, reads: name == "list"}}
	f := a.flagSet(c.name)
	c.place.registerActing(f)
	if name == "create" {
		f.StringVar(&c.expires, "expires", "", "How `long` the token is valid, such as 90d or 12h. Default: until it is revoked.")
	}
	var names complete.Predictor
	if !c.reads {
		names = complete.PredictAnything
	}
	if name == "revoke" {
		names = a.tasks(f, c.tokenNames)
	}
	return command{flags: f, synopsis: synopsis, help: usage, examples: examples, codes: codesOfStore, args: names, run: func(arguments []string) int {
		if !c.reads && len(arguments) != 1 {
			return a.fail(exitMissing, fmt.Errorf("name one token: %s", a.help(c.name)))
		}
		place, code := c.open()
		if code >= 0 {
			return code
		}
		defer place.Close()
		code, err := do(c, place, strings.Join(arguments, ""))
		if err != nil {
			what := "list the tokens"
			if !c.reads {
				what = name + " token '" + arguments[0] + "'"
			}
			return c.problem("unable to "+what, err)
		}
		return code
	}}
}

// tokenNames returns the tokens that the API has.
func (c *tokenCommand) tokenNames(ctx context.Context, _ string) ([]string, error) {
	client, err := c.place.api.anyClient(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	tokens, err := client.Tokens(ctx)
	return list.Map(tokens, func(t apispec.Token) string { return t.Name }), err
}

// lifetime parses how long a token is valid; days are allowed. It is 0 for no end.
func lifetime(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	length, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		length = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || length <= 0 {
		return 0, fmt.Errorf("-expires is %q: write a number of days or a duration, such as 90d or 12h", text)
	}
	return length, nil
}

func (c *tokenCommand) create(place door, name string) (int, error) {
	length, err := lifetime(c.expires)
	if err != nil {
		return c.fail(exitFlags, err), nil
	}
	by := userAtHost()
	asked := apispec.TokenRequest{Name: name, By: &by}
	if length > 0 {
		asked.Expires = new(time.Now().Add(length).UTC().Truncate(time.Second))
	}
	token, made, err := place.CreateToken(c.ctx, asked)
	if err != nil {
		return 0, err
	}
	if c.json {
		return c.printJSON(struct {
			Token string        `json:"token"` // itself
			Made  apispec.Token `json:"made"`
		}{token, made}), nil
	}
	fmt.Fprintln(c.stdout, token)
	until := "until it is revoked"
	if made.Expires != nil {
		until = "until " + at(made.Expires)
	}
	fmt.Fprintf(c.stderr, "This token is shown once. It is valid %s. It may do only what a grant in api.access permits token:%s: without such a grant, nothing.\n", until, name)
	return exitOK, nil
}

func (c *tokenCommand) list(place door, _ string) (int, error) {
	tokens, err := place.Tokens(c.ctx)
	switch {
	case err != nil:
		return 0, err
	case c.json:
		return c.printJSON(tokens), nil
	case len(tokens) == 0:
		fmt.Fprintln(c.stdout, "There are no tokens.")
		return exitOK, nil
	}
	var t table
	t.row(plain, "NAME", "TOKEN", "CREATED", "BY", "EXPIRES")
	for i := range tokens {
		one := &tokens[i]
		expires := at(one.Expires)
		if one.Expires != nil && !time.Now().Before(*one.Expires) {
			expires += " (expired)"
		}
		t.row(plain, one.Name, "…"+one.End, at(&one.Created), one.By, expires)
	}
	t.print(c.stdout)
	return exitOK, nil
}

func (c *tokenCommand) revoke(place door, name string) (int, error) {
	if err := place.RevokeToken(c.ctx, name); err != nil {
		return 0, err
	}
	if c.json {
		return c.printJSON(map[string]string{"revoked": name}), nil
	}
	fmt.Fprintf(c.stdout, "Token %s is revoked: instances refuse it within %d seconds.\n", name, int(credentials.Fresh.Seconds()))
	return exitOK, nil
}
