package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/serve"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// uiPoll is how often the deployment is asked for news while a page is open, and
// uiRest the same while nothing changes. Each request is an invocation, which
// docs/scale.md counts.
const (
	uiPoll = 5 * time.Second
	uiRest = 15 * time.Second
)

// principalTime is how long the deployment may take to say who the user is. A function
// that has not answered for a while needs a second.
const principalTime = 5 * time.Second

// uiCommand serves the pages of a deployment in AWS, or of another instance, on this
// machine.
func (a *app) uiCommand() command {
	var port int
	var api apiFlags
	f := a.flagSet("ui")
	f.IntVar(&port, "listen-port", 0, "The `port` on 127.0.0.1. Default: any free port.")
	api.registerCurrent(f)
	return command{flags: f, synopsis: "Show the pages of a deployment in AWS",
		examples: []string{"-stack=network", "-stack=network -listen-port=8600"}, codes: codesOfStore,
		help: `Usage: terrapulse ui -stack=NAME [flags]

  Serves the pages of a deployment in AWS on this machine, and prints their
  address. They show what every task does and why; on them you approve, reject,
  hold and run tasks. Requests to the deployment are signed with your AWS
  credentials: you may do what these may, and approvals have their name.
  With -http-addr instead of -stack they show another instance.

  The address has a secret that lets only you use the pages. It works once, for
  a browser, for 12 hours; then the next address is printed.
`,
		run: func([]string) int { return a.ui(port, &api) },
	}
}

func (a *app) ui(port int, api *apiFlags) int {
	client, shown, code := a.uiClient(api)
	if code >= 0 {
		return code
	}
	defer client.Close()
	log, err := (&logFlags{level: "WARN", format: "text"}).logger(a, "")
	if err != nil {
		return a.fail(exitError, err)
	}
	viewer := a.principal(client, api.stack != "")
	first := true
	var server *serve.Server
	server, err = serve.Listen(a.ctx, serve.Options{
		Address: "127.0.0.1", Port: port, Pages: outbox.PagesPath, Log: log, Token: serve.Token{Key: "the address that was printed", Value: rand.Text()},
		Invite: func(path string) {
			url := fmt.Sprintf("http://%s%s", server.Addr(), path)
			switch {
			case a.json:
				a.printJSON(map[string]string{"url": url})
			case first:
				fmt.Fprintf(a.stdout, "The pages of %s: %s\nPress Ctrl-C to end.\n", shown, url)
			default:
				fmt.Fprintf(a.stdout, "That address was used. For another browser: %s\n", url)
			}
			first = false
		},
		Handler: web.New(a.ctx, web.Options{
			API: client, Poll: uiPoll, Rest: uiRest, Stack: shown, Version: buildinfo.Version, Now: time.Now, Log: log,
			Viewer: func(*http.Request) access.Caller { return viewer }, // the API decides
		}),
	})
	if err != nil {
		return a.fail(exitError, err)
	}
	return max(a.fail(exitError, server.Serve(a.ctx)), exitOK)
}

// principal returns who this user is to the API, and what they may do. If the API does not
// answer, the pages say why.
func (a *app) principal(client *apiclient.Client, inAWS bool) access.Caller {
	viewer := access.Caller{Identity: access.Identity{Name: userAtHost()}, Rights: roles.Everything()}
	ctx, cancel := context.WithTimeout(a.ctx, principalTime)
	defer cancel()
	v, err := client.Version(ctx)
	if err != nil {
		return viewer
	}
	if inAWS && v.Sender != nil {
		viewer.Identity = access.Identity{Name: *v.Sender}
		if strings.HasPrefix(viewer.Name, "arn:") {
			viewer.Identity = identity.OfARN(viewer.Name)
		}
	}
	viewer.Rights = apiview.Rights(v)
	return viewer
}

// uiClient returns the client of the API whose pages are shown, and its name.
func (a *app) uiClient(api *apiFlags) (*apiclient.Client, string, int) {
	if given := api.given(); !given["stack"] && !given["http-addr"] {
		return nil, "", a.fail(exitMissing, errors.New("name the stack with -stack, or another instance with -http-addr"))
	}
	client, code := a.apiClient(api)
	return client, cmp.Or(api.stack, api.Address), code
}
