package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/login"
	"github.com/terrapulse/terrapulse/internal/people/openid"
)

// loginTime is how long a person may take to sign in.
const loginTime = 10 * time.Minute

// loginFlags are how somebody signs in.
type loginFlags struct {
	api    apiFlags
	device bool
	show   bool
	port   int
	caCert string
}

// loginCommand signs a person in at the OpenID provider of an instance.
func (a *app) loginCommand() command {
	var l loginFlags
	f := a.flagSet("login")
	f.BoolVar(&l.show, "show", false, "Sign nobody in: show who you are to an instance or a deployment in AWS, what proves it, and your roles.")
	f.BoolVar(&l.device, "device", false, "Sign in with a browser on another device, where you enter a code.")
	f.IntVar(&l.port, "listen-port", 0, "The `port` on 127.0.0.1 at which the browser comes back to http://localhost:PORT/callback, if the provider has to know it. Without a display, the port that you forward from the machine with your browser. Default: any free port.")
	f.StringVar(&l.caCert, "issuer-ca-cert", "", "The `file` of the authority that the certificate of the OpenID provider is checked with. Default: those of the system.")
	l.api.registerCurrent(f)
	return command{flags: f, synopsis: "Sign in at the OpenID provider of an instance",
		examples: []string{"-http-addr=https://terrapulse.example.com:8558", "-device", "-stack=network -show"}, codes: codesOfTask,
		help: `Usage: terrapulse login [flags]

  Signs you in at the OpenID provider that api.access.oidc of an instance names,
  in a browser, or with a code on another device. Other commands with the same
  -http-addr then act as you, until you sign out with terrapulse logout, or the
  provider does not renew the sign-in. The tokens are kept in your folder for
  configuration; only you can read them, and they are sent to this address only.

  -show works with each kind of identity: a token, a client certificate, a
  sign-in, or AWS credentials.
`,
		run: func([]string) int {
			if l.show {
				return a.showSender(&l.api)
			}
			return a.login(&l)
		},
	}
}

func (a *app) login(l *loginFlags) int {
	client, address, code := a.loginClient(&l.api)
	if code >= 0 {
		return code
	}
	ctx, cancel := context.WithTimeoutCause(a.ctx, loginTime, errors.New("nobody signed in within 10 minutes"))
	defer cancel()
	at, err := client.Login(ctx)
	if err != nil {
		return a.problem("unable to sign in at "+address, err)
	}
	if l.caCert != "" {
		if l.caCert, err = filepath.Abs(l.caCert); err != nil {
			return a.fail(exitError, err)
		}
	}
	one := login.Login{Address: address, Issuer: at.Issuer, ClientID: at.ClientID, UsernameClaim: at.UsernameClaim, GroupsClaim: at.GroupsClaim, CACert: l.caCert}
	folder, err := login.Default()
	if err == nil {
		err = a.warnOfLogin(folder, one)
	}
	if err == nil {
		options := one.Options()
		options.Scopes = at.Scopes
		one.Tokens, err = a.tokensOf(ctx, options, l)
	}
	if err == nil {
		err = a.keepLogin(ctx, folder, one, l)
	}
	if err != nil {
		return a.problem("unable to sign in at "+address, err)
	}
	return exitOK
}

// loginClient returns the client of the API without a token, and its address.
func (a *app) loginClient(o *apiFlags) (*apiclient.Client, string, int) {
	if o.given()["stack"] {
		return nil, "", a.fail(exitMissing, errors.New("a deployment in AWS has no sign-in: requests to it are signed with your AWS credentials"))
	}
	opts, err := o.resolved()
	if err != nil {
		return nil, "", a.problem("cannot speak to the API", err)
	}
	opts.Token, opts.Bearer = "", nil
	address, err := apiclient.Normal(opts.Address)
	if err != nil {
		return nil, "", a.problem("cannot speak to the API", err)
	}
	client, err := apiclient.New(opts)
	if err != nil {
		return nil, "", a.problem("cannot speak to the API", err)
	}
	return client, address, -1
}

// warnOfLogin says who gets to know the person, and refuses a provider that anybody can pretend to be.
func (a *app) warnOfLogin(folder login.Folder, l login.Login) error {
	issuer, err := url.Parse(l.Issuer)
	if err != nil || issuer.Scheme != "https" && !(issuer.Scheme == "http" && isLoopback(issuer.Hostname())) {
		return fmt.Errorf("the instance names the OpenID provider %q, which is not reached with https", l.Issuer)
	}
	if u, err := url.Parse(l.Address); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		fmt.Fprintf(a.stderr, "Warning: %s is reached without TLS: who is in between can act as you.\n", l.Address)
	}
	if others := folder.Others(l); len(others) > 0 {
		fmt.Fprintf(a.stderr, "Warning: this sign-in is also valid at %s: continue only if you trust %s as much.\n", strings.Join(others, ", "), l.Address)
	}
	return nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// tokensOf signs the person in.
func (a *app) tokensOf(ctx context.Context, o openid.Options, l *loginFlags) (openid.Tokens, error) {
	provider, err := openid.New(o)
	if err != nil {
		return openid.Tokens{}, err
	}
	open := browserCommand()
	if l.device || open == nil && l.port == 0 {
		tokens, err := provider.OnDevice(ctx, func(address, code string) {
			fmt.Fprintf(a.stderr, "Open %s on any device, and enter the code %s\n", address, code)
		})
		if l.device || !errors.Is(err, openid.ErrNoDevices) {
			return tokens, err
		}
	}
	return provider.InBrowser(ctx, l.port, func(port int, address string) {
		if open == nil {
			host, _ := os.Hostname()
			fmt.Fprintf(a.stderr, "Forward the port from the machine with your browser: ssh -L %d:127.0.0.1:%[1]d %s\nThen sign in at %s: open this address there:\n%s\n", port, host, o.Issuer, address)
		} else {
			fmt.Fprintf(a.stderr, "Sign in at %s in the browser on this machine. If it does not open, open this address:\n%s\n", o.Issuer, address)
			_ = exec.CommandContext(a.ctx, open[0], append(open[1:], address)...).Start() // the address was printed
		}
	})
}

// browserCommand is what opens an address in a browser; nil if there is none that people see.
func browserCommand() []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	path, err := exec.LookPath("xdg-open")
	if err != nil {
		return nil
	}
	return []string{path}
}

// keepLogin keeps a login if the instance accepts it, and says who the person is there.
func (a *app) keepLogin(ctx context.Context, folder login.Folder, one login.Login, l *loginFlags) error {
	opts, err := l.api.resolved()
	if err != nil {
		return err
	}
	opts.Token, opts.Bearer = one.ID, nil
	client, err := apiclient.New(opts)
	if err != nil {
		return err
	}
	who, err := client.Version(ctx)
	refused, isRefused := errors.AsType[*apiclient.Error](err)
	if err != nil && !(isRefused && refused.Status == http.StatusForbidden) {
		return err
	}
	if kept := folder.Write(one); kept != nil {
		return kept
	}
	if err != nil { // the person is known there, and has no role
		return err
	}
	a.printSender(who, fmt.Sprintf("Signed in at %s as ", one.Address))
	return nil
}

// showSender prints who the user is to an API.
func (a *app) showSender(api *apiFlags) int {
	client, code := a.apiClient(api)
	if code >= 0 {
		return code
	}
	defer client.Close()
	who, err := client.Version(a.ctx)
	if err != nil {
		return a.problem("unable to find out who you are", err)
	}
	a.printSender(who, "")
	return exitOK
}

// senderReport is what login -json prints.
type senderReport struct {
	Sender string                 `json:"sender"`
	Proof  string                 `json:"proof,omitempty"`
	Groups []string               `json:"groups,omitempty"`
	Roles  []apispec.RoleOfSender `json:"roles"`
}

// printSender prints who sends requests, as the API sees it.
func (a *app) printSender(v apispec.VersionResponse, intro string) {
	r := senderReport{Sender: apispec.Deref(v.Sender), Proof: apispec.Deref(v.Proof), Groups: apispec.Deref(v.Groups), Roles: apispec.Deref(v.Roles)}
	if a.json {
		a.printJSON(r)
		return
	}
	fmt.Fprintf(a.stdout, "%s%s\n", intro, r.Sender)
	if r.Proof != "" {
		fmt.Fprintf(a.stdout, "Proven by: %s\n", r.Proof)
	}
	if len(r.Groups) > 0 {
		fmt.Fprintf(a.stdout, "Groups: %s\n", strings.Join(r.Groups, ", "))
	}
	fmt.Fprintf(a.stdout, "Roles: %s\n", apiview.Rights(v))
}
