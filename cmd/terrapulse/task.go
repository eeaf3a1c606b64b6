package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/mitchellh/go-wordwrap"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/login"
)

// apiFlags say which API is spoken to, and how: that of a stack, or at an address.
type apiFlags struct {
	apiclient.Options
	stack     string
	port      int
	verify    bool
	tokenFile string
	flags     *flag.FlagSet
}

// defaultAddress is that of an instance on this machine with the usual port.
const defaultAddress = "http://localhost:8558"

// register registers the flags, also the one that is only there for old scripts.
func (o *apiFlags) register(f *flag.FlagSet) {
	o.registerCurrent(f)
	f.IntVar(&o.port, "port", 0, "Deprecated: use -http-addr. The `port` of the HTTP API on this machine.")
}

// registerCurrent registers the flags of a command that old scripts do not use.
func (o *apiFlags) registerCurrent(f *flag.FlagSet) {
	o.flags = f
	text := func(p *string, name, env, def, usage string) {
		if v := os.Getenv(env); v != "" {
			def = v
		}
		f.StringVar(p, name, def, usage+" Also "+env+".")
	}
	stackFlag(f, &o.stack)
	text(&o.Address, "http-addr", addressVariable, defaultAddress, "The `address` of the HTTP API: of an instance, or of a deployment in AWS, to which requests are signed.")
	text(&o.CACert, "ca-cert", "CTS_CACERT", "", "The `file` of the authority that the API's certificate is checked with.")
	text(&o.CAPath, "ca-path", "CTS_CAPATH", "", "A `folder` of such files, instead of -ca-cert.")
	text(&o.Cert, "client-cert", "CTS_CLIENT_CERT", "", "The `file` of the certificate that is shown to the API.")
	text(&o.Key, "client-key", "CTS_CLIENT_KEY", "", "The `file` of that certificate's key.")
	// The values of these variables are no defaults: the help would print them.
	f.StringVar(&o.Token, "token", "", "The `token` that the API requires; other users of this machine see it in the list of processes. Also TERRAPULSE_TOKEN.")
	f.StringVar(&o.tokenFile, "token-file", "", "The `file` that holds the token, instead of -token. Also TERRAPULSE_TOKEN_FILE.")
	o.verify = true
	f.BoolVar(&o.verify, "ssl-verify", o.verify, "Check the API's certificate. Also CTS_SSL_VERIFY.")
}

// given returns the names of the flags on the command line.
func (o *apiFlags) given() map[string]bool {
	given := map[string]bool{}
	o.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given
}

// addressVariable is the environment variable of -http-addr.
const addressVariable = "CTS_ADDRESS"

// named reports whether a place is named that is an API: by a flag or, unless flags name a
// store, by the environment.
func (o *apiFlags) named(given map[string]bool) bool {
	switch {
	case given["stack"], given["http-addr"], given["port"]:
		return true
	case given["store"], given["config-file"], given["config-dir"]:
		return false
	}
	return os.Getenv(addressVariable) != ""
}

// environmentAPI returns the options for the API at an address that the
// environment names.
func environmentAPI(address string) (apiclient.Options, error) {
	var o apiFlags
	f := newFlags("")
	o.register(f)
	if err := f.Parse([]string{"-http-addr", address}); err != nil {
		return o.Options, err
	}
	return o.resolved()
}

// client returns a client of the API that the flags and the environment name.
func (o *apiFlags) client() (*apiclient.Client, error) {
	opts, err := o.resolved()
	if err != nil {
		return nil, err
	}
	client, err := apiclient.New(opts)
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		flags := map[string]string{opts.CACert: "-ca-cert (CTS_CACERT)", opts.Cert: "-client-cert (CTS_CLIENT_CERT)", opts.Key: "-client-key (CTS_CLIENT_KEY)"}
		err = fileOf(cmp.Or(flags[path.Path], "-ca-path (CTS_CAPATH)"), err)
	}
	return client, err
}

// resolved returns the options that the flags and the environment name.
func (o *apiFlags) resolved() (apiclient.Options, error) {
	given := o.given()
	opts := o.Options
	if given["port"] && !given["http-addr"] {
		if o.port < 1 || o.port > 65535 {
			return opts, fmt.Errorf("-port %d is not a valid port: use 1 to 65535", o.port)
		}
		opts.Address = fmt.Sprintf("http://localhost:%d", o.port)
	}
	verify, err := o.verify, error(nil)
	if env := os.Getenv("CTS_SSL_VERIFY"); env != "" && !given["ssl-verify"] {
		if verify, err = strconv.ParseBool(env); err != nil {
			return opts, fmt.Errorf("CTS_SSL_VERIFY is %q: use true or false", env)
		}
	}
	opts.SkipVerify = !verify
	if opts.Token, err = o.token(given); err != nil || opts.Token != "" {
		return opts, err
	}
	opts.Bearer, err = signedIn(opts.Address)
	return opts, err
}

// signedIn returns what returns the tokens of a person who has signed in at an address; nil if nobody has.
func signedIn(address string) (func(context.Context) (string, error), error) {
	normal, err := apiclient.Normal(address)
	if err != nil {
		return nil, err
	}
	folder, err := login.Default()
	if err != nil {
		return nil, nil // as for a service, which has no folder
	}
	return folder.Bearer(normal)
}

// token returns the token of the flags or, without those, of the environment.
func (o *apiFlags) token(given map[string]bool) (string, error) {
	token, file := o.Token, o.tokenFile
	switch {
	case given["token"] && given["token-file"]:
		return "", errors.New("-token and -token-file are both given: use one of them")
	case !given["token"] && !given["token-file"]:
		token, file = os.Getenv("TERRAPULSE_TOKEN"), os.Getenv("TERRAPULSE_TOKEN_FILE")
	}
	if token != "" || file == "" {
		return token, nil
	}
	token, err := apiclient.TokenFile(file)
	return token, fileOf("-token-file (TERRAPULSE_TOKEN_FILE)", err)
}

const approveUsage = "Do not ask for approval."

// approvalOptions are those of a command that asks before it changes a task.
type approvalOptions struct {
	api     apiFlags
	approve bool
}

func (o *approvalOptions) register(f *flag.FlagSet) {
	f.BoolVar(&o.approve, "auto-approve", false, approveUsage)
	f.Lookup("json").Usage = "Print JSON, for scripts. Needs -auto-approve."
	o.api.register(f)
}

// approved asks for approval unless -auto-approve is given, and names what the
// person should consider. The exit code is -1 if the command is to go on.
func (a *app) approved(o *approvalOptions, doing, task, question string, reasons ...string) (code int, err error) {
	if o.approve {
		return -1, nil
	}
	a.say("%s", question)
	var b strings.Builder
	for _, r := range append([]string{"This cannot be undone."}, reasons...) {
		b.WriteString(" - " + strings.ReplaceAll(wrapped(a.stdout, r, lineWidth-3), "\n", "\n   ") + "\n")
	}
	b.WriteString("\nOnly 'yes' will be accepted to approve, enter 'no' or leave blank to reject.")
	a.detail(b.String())
	fmt.Fprintf(a.stdout, "%sEnter a value: ", margin)
	answer, err := readLine(a.ctx, a.stdin)
	fmt.Fprint(a.stdout, "\n")
	switch {
	case a.ctx.Err() != nil:
		err = errors.New("interrupted before there was an answer: nothing is changed")
	case errors.Is(err, io.EOF):
		err = errors.New("cannot prompt: standard input is closed; nothing is changed; use -auto-approve to skip the question")
	case err != nil:
		err = fmt.Errorf("read the answer: %w", err)
	case strings.TrimSpace(answer) == "yes":
		return -1, nil
	default:
		a.detail(fmt.Sprintf("Cancelled %s task '%s'", strings.ToLower(doing), task))
	}
	return exitOK, err
}

// planApproved asks for approval of the plan that was shown.
func (a *app) planApproved(o *approvalOptions, doing, task string) (code int, err error) {
	return a.approved(o, doing, task,
		fmt.Sprintf("%s the task will perform the actions described above.\nDo you want to perform these actions for '%s'?", doing, task),
		"Terraform may do something else if what the task watches in Consul changes meanwhile.")
}

// taskChange is what a command that changes a task prints with -json.
type taskChange struct {
	Task                string `json:"task"`
	*apispec.Inspection        // the plan that was carried out
	Note                string `json:"note,omitempty"`
	Waits               string `json:"waits,omitempty"` // why the run does not begin or apply, and what becomes of the change
}

// whenRun prints how a change went that was requested together with a run. If the run waits, that is no error.
func (a *app) whenRun(err error, change taskChange, done string) (int, error) {
	why, waits := apiclient.Waits(err)
	switch {
	case waits:
		change.Waits = why
		a.say("The run of task '%s' is requested, and waits", change.Task)
		a.detail(wrapped(a.stdout, why, lineWidth))
		return cmp.Or(a.changed(change), exitWaits), nil
	case err != nil:
		return 0, err
	}
	a.say(done, change.Task)
	return a.changed(change), nil
}

// changed prints what a command has changed if it prints JSON.
func (a *app) changed(change taskChange) int {
	if a.json {
		return a.printJSON(change)
	}
	return exitOK
}

// text is where a command prints text: nowhere with -json, so that standard output
// has only the result.
func (a *app) text() io.Writer {
	if a.json {
		return io.Discard
	}
	return a.stdout
}

// approvable fails where approval is needed and -json leaves no way to ask. The
// exit code is -1 if all is well.
func (a *app) approvable(o *approvalOptions) int {
	if !a.json || o.approve {
		return -1
	}
	a.problem("-json cannot ask for approval", errors.New("give -auto-approve, too: nothing is changed"))
	return exitMissing
}

// help says where a person finds how a command is used.
func (a *app) help(command string) string {
	return fmt.Sprintf("For additional help try '%s %s --help'", a.program, command)
}

// apiClient returns a client of the API that the flags and the environment name. The
// exit code is -1 if all is well.
func (a *app) apiClient(o *apiFlags) (*apiclient.Client, int) {
	given := o.given()
	if code := a.onePlace(given); code >= 0 {
		return nil, code
	}
	if given["stack"] {
		return a.stackAPI(o.stack)
	}
	client, err := o.client()
	if err != nil {
		return nil, a.problem("cannot speak to the API", err)
	}
	return client, -1
}

// The lines of these commands are indented as scripts know them from
// Consul-Terraform-Sync. They are wrapped on a terminal only: a script may look for
// words that a line end would separate.
const (
	lineWidth = 78
	heading   = "==> "
	margin    = "    "
)

// say prints a step.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.text(), "%s%s\n\n", heading, indented(wrapped(a.stdout, fmt.Sprintf(format, args...), lineWidth)))
}

// detail prints what belongs to a step. Its lines are kept as they are.
func (a *app) detail(text string) {
	fmt.Fprintf(a.text(), "%s%s\n\n", margin, indented(strings.Trim(text, "\n")))
}

// problem prints what went wrong with a step, and returns the exit code.
func (a *app) problem(what string, err error) int {
	if a.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted; what the API was asked for last may still be done")
	}
	fmt.Fprintf(a.stderr, "%sError: %s\n\n%s%s\n", heading, indented(wrapped(a.stderr, what, lineWidth)), margin, indented(wrapped(a.stderr, err.Error(), lineWidth)))
	return exitError
}

// wrapped wraps a text if it is printed on a terminal.
func wrapped(w io.Writer, text string, width uint) string {
	if !isTerminal(w) {
		return text
	}
	return wordwrap.WrapString(text, width)
}

// indented puts all lines but the first behind the margin.
func indented(text string) string {
	text = strings.ReplaceAll(text, "\n", "\n"+margin)
	return strings.ReplaceAll(text, "\n"+margin+"\n", "\n\n")
}

// showPlan prints what Terraform would do.
func (a *app) showPlan(plan apispec.Inspection) {
	a.detail("Plan: \n" + cmp.Or(strings.Trim(plan.Plan, "\n"), "No changes."))
	if plan.TfcRunURL != nil {
		a.detail("Terraform Cloud Run URL: " + *plan.TfcRunURL)
	}
}

// generating is what is said while Terraform plans.
func (a *app) generating() {
	product := "Terrapulse"
	if a.isCTS() {
		product = "Consul-Terraform-Sync"
	}
	a.detail(fmt.Sprintf("Generating plan that %s will use Terraform to execute", product))
}

// readLine returns the next line, which need not be ended, unless the context
// ends first.
func readLine(ctx context.Context, r io.Reader) (string, error) {
	var text string
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		if text, err = bufio.NewReader(r).ReadString('\n'); text != "" {
			err = nil
		}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-read:
		return text, err
	}
}
