package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/terrapulse/terrapulse/internal/access"
	"github.com/terrapulse/terrapulse/internal/apiclient"
	"github.com/terrapulse/terrapulse/internal/serve"
	"github.com/terrapulse/terrapulse/internal/web"
)

// uiPoll is how often the function URL is asked for news while a page is open, and
// uiRest the same while nothing changes. Each request is an invocation, which
// docs/cost.md counts.
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
	var stackName string
	var port int
	var api apiFlags
	f := a.flagSet("ui")
	f.StringVar(&stackName, "stack", "", "The `name` of the CloudFormation stack whose pages are shown.")
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
		run: func([]string) int { return a.ui(stackName, port, &api) },
	}
}

func (a *app) ui(stackName string, port int, api *apiFlags) int {
	client, shown, code := a.uiClient(stackName, api)
	if code >= 0 {
		return code
	}
	defer client.Close()
	log, err := (&logFlags{level: "WARN", format: "text"}).logger(a, "")
	if err != nil {
		return a.fail(exitError, err)
	}
	viewer := access.Sender{Name: userAtHost()}
	if stackName != "" {
		viewer = a.principal(client, viewer)
	}
	first := true
	var server *serve.Server
	server, err = serve.Listen(a.ctx, serve.Options{
		Address: "127.0.0.1", Port: port, Pages: web.Root, Log: log, Token: serve.Token{Key: "the address that was printed", Value: rand.Text()},
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
			API: client, Poll: uiPoll, Rest: uiRest, Stack: shown, Version: version, Now: time.Now, Log: log,
			Who:    func(*http.Request) access.Sender { return viewer },
			MayAct: func(*http.Request) bool { return true }, // the API decides
		}),
	})
	if err != nil {
		return a.fail(exitError, err)
	}
	return max(a.fail(exitError, server.Serve(a.ctx)), exitOK)
}

// principal returns who this user is to AWS, or the viewer if the deployment does not
// answer: then the pages say why.
func (a *app) principal(client *apiclient.Client, viewer access.Sender) access.Sender {
	ctx, cancel := context.WithTimeout(a.ctx, principalTime)
	defer cancel()
	if v, err := client.Version(ctx); err == nil && v.Sender != nil {
		return access.Sender{Name: *v.Sender, Authenticated: true}
	}
	return viewer
}

// uiClient returns the client of the API whose pages are shown, and its name.
func (a *app) uiClient(stackName string, api *apiFlags) (*apiclient.Client, string, int) {
	if stackName == "" {
		if !api.given()["http-addr"] {
			return nil, "", a.fail(exitMissing, errors.New("name the stack with -stack, or another instance with -http-addr"))
		}
		client, code := a.apiClient(api)
		return client, api.Address, code
	}
	st, code := a.findStack(stackName)
	if code >= 0 {
		return nil, "", code
	}
	url, err := st.Output("ApiUrl")
	if err != nil {
		return nil, "", a.fail(exitConfig, err)
	}
	client, err := apiclient.New(apiclient.Options{Address: url})
	return client, stackName, a.fail(exitError, err)
}
