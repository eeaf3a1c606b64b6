package verify

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/environ"
)

// Keys are the keys of a verify block.
type Keys struct {
	block.Labelled
	HTTP      HTTPKeys       `key:"http" doc:"a request, and the expected answer"`
	Command   block.Strings  `key:"command" secret:"arguments" example:"./check-bgp" doc:"program and arguments, without a shell, in the base folder of relative module paths; exit code 0: it works"`
	Files     block.Strings  `key:"files" unset:"none" example:"check-bgp" doc:"files and folders that 'command' reads: a bundle includes them"`
	Terraform block.Bool     `key:"terraform" default:"false" doc:"'true': every 'check' block of the module must pass, also one that Terraform could not evaluate"`
	Within    block.Duration `key:"within" default:"30s" form:"delay" doc:"time after the apply in which an attempt must pass, at most '15m'"`
	Every     block.Duration `key:"every" default:"2s" form:"delay" doc:"time between two attempts"`
	Timeout   block.Duration `key:"timeout" default:"10s" form:"delay" doc:"time limit of one attempt"`
	OnFailure block.String   `key:"on_failure" default:"report" one:"report hold" doc:"'hold': if it fails, the task is put on hold"`
	Enabled   block.Bool     `key:"enabled" default:"true" doc:"'false': leave out this verification, such as a global one in a task"`
}

// HTTPKeys are the keys of an http block.
type HTTPKeys struct {
	block.Origin
	URL        block.String  `key:"url" secret:"query" example:"https://10.0.0.1/health" doc:"address, with 'http' or 'https'"`
	Method     block.String  `key:"method" default:"GET" one:"GET HEAD POST OPTIONS" doc:"method of the request, which has no body"`
	Headers    block.Map     `key:"headers" secret:"value" unset:"none" doc:"further headers; '{{ env \"NAME\" }}' in a value is a variable of the environment"`
	Status     block.Strings `key:"status" unset:"'200-299'" example:"200" doc:"expected status codes, or ranges of them"`
	Body       block.String  `key:"body" unset:"any" doc:"[regular expression](https://pkg.go.dev/regexp/syntax) that the first MB of the body must match"`
	CACert     block.String  `key:"ca_cert" unset:"the CAs of the system" doc:"file of CA certificates: a bundle includes it"`
	ServerName block.String  `key:"server_name" unset:"the host of the URL" doc:"name in the server's certificate"`
}

// MaxBlocks is how many verifications a task may have: the record of a run has the result of each.
const MaxBlocks = 20

// Longest is the longest time within which an attempt may pass: a verification occupies its task.
const Longest = 15 * time.Minute

var (
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	envCall    = regexp.MustCompile(`\{\{\s*env\s+"([A-Za-z_][A-Za-z0-9_]*)"\s*\}\}`)
)

var named = block.Named[Spec]{What: "verify block", Name: func(s Spec) string { return s.Name }, New: func(name string) Spec {
	return Spec{Name: name, Enabled: true, Within: 30 * time.Second, Every: 2 * time.Second, Timeout: 10 * time.Second, OnFailure: Report}
}}

// Specs checks the blocks, and returns the verifications with those of parents, as block.Merge does.
func Specs(r *block.Report, blocks []Keys, parents []Spec) []Spec {
	all := block.Merge(r, named, blocks, parents, func(k *Keys, parent Spec) Spec { return k.spec(r, parent) })
	if len(all) > MaxBlocks && len(blocks) > 0 {
		r.Fail(blocks[len(blocks)-1].Origin, fmt.Sprintf("%d verifications are too many", len(all)), fmt.Sprintf("at most %d; a program can verify several things", MaxBlocks))
	}
	return all
}

func (k *Keys) spec(r *block.Report, parent Spec) Spec {
	s := Spec{
		Name: k.Label, Enabled: k.Enabled.Or(parent.Enabled), Command: k.Command.Or(parent.Command), Files: k.Files.Or(parent.Files),
		Terraform: k.Terraform.Or(parent.Terraform), Within: k.Within.Or(parent.Within), Every: k.Every.Or(parent.Every),
		Timeout: k.Timeout.Or(parent.Timeout), OnFailure: k.OnFailure.Or(parent.OnFailure),
		HTTP: k.HTTP.spec(r, parent.HTTP),
	}
	ways := 0
	for _, is := range []bool{s.HTTP != nil, len(s.Command) > 0, s.Terraform} {
		if is {
			ways++
		}
	}
	switch {
	case ways == 0:
		r.Missing(k.Key("http"), "the verification says nothing that could be verified", `an http block, a command such as ["./check-bgp", "muc"], or terraform = true`)
	case ways > 1:
		r.Fail(k.Origin, "http, command and terraform exclude each other", "give each its own verify block")
	case len(s.Command) > 0 && s.Command[0] == "":
		r.Fail(k.Command.Origin, "the command has no program", `such as ["./check-bgp", "muc"]`)
	}
	k.times(r, s)
	for i, name := range k.Files.V {
		if filepath.IsAbs(name) {
			r.Fail(k.Files.Element(i), block.Quoted(name)+" is an absolute path, which does not exist on another machine", "a path that is relative to the folder in which Terrapulse is started")
		}
	}
	if s.OnFailure != Report && s.OnFailure != Hold {
		r.Fail(k.OnFailure.Origin, "invalid on_failure "+block.Quoted(s.OnFailure), "allowed: report, hold")
	}
	return s
}

// times checks the durations.
func (k *Keys) times(r *block.Report, s Spec) {
	for _, d := range []struct {
		key   *block.Duration
		name  string
		value time.Duration
	}{{&k.Within, "within", s.Within}, {&k.Every, "every", s.Every}, {&k.Timeout, "timeout", s.Timeout}} {
		switch {
		case d.value <= 0:
			r.Fail(d.key.Origin, d.name+" must be longer than 0s", `such as "30s"`)
		case s.Terraform && d.key.Set:
			r.Fail(d.key.Origin, d.name+" has no effect with terraform = true: Terraform evaluates check blocks once, in the apply", "remove it")
		}
	}
	if s.Within > Longest {
		r.Fail(k.Within.Origin, fmt.Sprintf("within %s is too long: the run occupies its task as long", block.Quoted(k.Within.Text)), "at most 15m")
	}
}

func (k *HTTPKeys) spec(r *block.Report, parent *HTTP) *HTTP {
	if !k.Set {
		return parent
	}
	h := HTTP{Method: "GET", Status: []string{"200-299"}}
	if parent != nil {
		h = *parent
	}
	h.URL, h.Method, h.Headers, h.Status = k.URL.Or(h.URL), k.Method.Or(h.Method), k.Headers.Or(h.Headers), k.Status.Or(h.Status)
	h.Body, h.CACert, h.ServerName = k.Body.Or(h.Body), k.CACert.Or(h.CACert), k.ServerName.Or(h.ServerName)
	switch u, err := url.Parse(h.URL); {
	case h.URL == "":
		r.Missing(k.Key("url"), "the http block has no url", `such as "https://10.0.0.1/health"`)
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		r.Fail(k.URL.Origin, "the url is not one with a scheme and a host", `such as "https://10.0.0.1/health"`)
	case u.User != nil:
		r.Fail(k.URL.Origin, "the url has a user or a password, which logs and pages would show", `use headers, such as Authorization = "Bearer {{ env \"TOKEN\" }}"`)
	}
	if !slices.Contains([]string{"GET", "HEAD", "POST", "OPTIONS"}, h.Method) {
		r.Fail(k.Method.Origin, "invalid method "+block.Quoted(h.Method), "allowed: GET, HEAD, POST, OPTIONS")
	}
	k.headers(r, h)
	if len(h.Status) == 0 {
		r.Fail(k.Status.Origin, "no status is expected", "remove the key to expect 200 to 299")
	}
	for i, text := range h.Status {
		if _, _, ok := codes(text); !ok {
			r.Fail(k.Status.Element(i), "not a status code or a range of them: "+block.Quoted(text), `such as 200 or "200-299"`)
		}
	}
	if _, err := regexp.Compile(h.Body); err != nil {
		r.Fail(k.Body.Origin, "the body is not a regular expression: "+err.Error(), "see https://pkg.go.dev/regexp/syntax")
	}
	if filepath.IsAbs(h.CACert) {
		r.Fail(k.CACert.Origin, block.Quoted(h.CACert)+" is an absolute path, which does not exist on another machine", "a path that is relative to the folder in which Terrapulse is started")
	}
	return &h
}

// headers checks the headers.
func (k *HTTPKeys) headers(r *block.Report, h HTTP) {
	for name, value := range h.Headers {
		at := k.Headers.Entry(name)
		if !headerName.MatchString(name) {
			r.Fail(at, "not the name of a header: "+block.Quoted(name), "such as Authorization")
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			r.Fail(at, "the value of a header is one line", "")
		}
		if strings.Contains(envCall.ReplaceAllString(value, ""), "{{") {
			r.Fail(at, "a header can only use a variable of the environment", `such as "Bearer {{ env \"TOKEN\" }}"`)
		}
		for _, call := range envCall.FindAllStringSubmatch(value, -1) {
			if environ.Withheld(call[1]) {
				r.Fail(at, "the variable "+call[1]+" has a credential of Terrapulse, which is not sent elsewhere", "use another variable")
			}
		}
	}
}

// Variables are the variables of the environment that the headers need, sorted.
func (h *HTTP) Variables() (names []string) {
	for _, value := range h.Headers {
		for _, call := range envCall.FindAllStringSubmatch(value, -1) {
			names = append(names, call[1])
		}
	}
	slices.Sort(names)
	return names
}

// codes returns the first and the last code of a range.
func codes(text string) (first, last int, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	return first, last, err == nil && err2 == nil && 100 <= first && first <= last && last <= 599
}

// shownURL is a URL for people, without its query, which may have a secret.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "its url"
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String()
}
