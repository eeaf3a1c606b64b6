package support

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/record/notify"
)

// removed replaces a secret.
const removed = "(removed)"

const (
	// leastSecret is the length from which on the value of a variable counts as a secret:
	// shorter ones, such as "1", occur everywhere.
	leastSecret = 6

	// maxSecretFile limits what is read from a file with a secret.
	maxSecretFile = 64 << 10
)

// Cleaner removes secrets from texts: values that it knows, and what looks like a secret.
type Cleaner struct{ known [][]byte }

// NewCleaner returns a Cleaner that knows the secrets of an environment in the format of
// os.Environ, by the names of the variables, and further secrets. It also reads the files
// that variables such as CONSUL_HTTP_TOKEN_FILE name.
func NewCleaner(environ []string, secrets ...string) *Cleaner {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if base, isFile := strings.CutSuffix(name, "_FILE"); isFile && redact.NamesSecret(base) {
			value, name = contentOf(value), base
		}
		if redact.NamesSecret(name) {
			secrets = append(secrets, value)
		}
	}
	c := &Cleaner{}
	for _, secret := range secrets {
		if secret = strings.TrimSpace(secret); len(secret) < leastSecret {
			continue
		}
		for _, form := range redact.Spellings(secret) {
			c.known = append(c.known, []byte(form))
		}
	}
	slices.SortFunc(c.known, func(a, b []byte) int { return len(b) - len(a) }) // one may contain another
	return c
}

// contentOf returns the content of a file; "" if it cannot be read.
func contentOf(path string) string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	content, _ := io.ReadAll(io.LimitReader(file, maxSecretFile))
	return string(content)
}

// The parts of an assignment: a name, what follows it, and its value. They fit JSON (also within
// a string), HCL, YAML, Terraform's plans, environments and addresses. The value begins on the line of the
// name: in YAML, the next line is another name.
const (
	namePart      = `([A-Za-z_][A-Za-z0-9_.-]*)`
	separatorPart = `(\\*"?\s*(?:=>|[=:])[^\S\n]*)`
	// A text in quotes: in a JSON string, in one within another, and anywhere else.
	quotedPart = `\\"(?:[^"\\]|\\[^"\\]|\\\\(?:\\"|\\\\|[^"\\]))*\\"|\\\\+"[^"\\]*\\+"|"(?:[^"\\]|\\.)*"`
	valuePart  = quotedPart + `|'[^'\\\n]*'|[^"\\\s,;&{}()\[\]]+`
)

var (
	// forms are those of well-known secrets, and of secrets of notify blocks.
	forms = append([]*regexp.Regexp{
		regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`),
		regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`),                                      // AWS
		regexp.MustCompile(`\bhv[sbr]\.[A-Za-z0-9_-]{20,}|\bs\.[A-Za-z0-9]{24}\b`),               // Vault
		regexp.MustCompile(`\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{20,}`),                    // HCP Terraform
		regexp.MustCompile(`\bey[A-Za-z0-9_-]{8,}\.ey[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+`),         // JSON Web Tokens
		regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-)[A-Za-z0-9_-]{16,}`), // GitHub, GitLab, Slack
		regexp.MustCompile(`\bLUFRPT[A-Za-z0-9+/=]{10,}`),                                        // PAN-OS
		regexp.MustCompile(`https://(?:discord(?:app)?\.com/api/webhooks|[a-z0-9.-]+\.webhook\.office\.com|events\.pagerduty\.com/integration)/[^\s"'\\]+`),
	}, notify.SecretForms()...)
	// userinfo is the password in a URL, tokenUser a user that is a token, and authorization and
	// header the value of that header.
	userinfo      = regexp.MustCompile(`(://[^/\s:@"\\]*:)[^/\s@"\\]+@`)
	tokenUser     = regexp.MustCompile(`(://)[^/\s:@"\\()]{20,}@`)
	authorization = regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`)
	header        = regexp.MustCompile(`(?i)\b(authorization\\*"?\s*[:=]\s*\\*"?(?:[a-z0-9-]+\s+)?)[^\s"\\()]{6,}[^"\\\n]*`)
	// option is an option of a command, said a password in a sentence, and element that of XML.
	option  = regexp.MustCompile(`(?i)(\s--?(?:[a-z0-9]+-)*(?:password|passwd|token|secret|api-?key)[ =]|\s-u\s+[^\s:"]+:)[^\s"\\]+`)
	said    = regexp.MustCompile(`(?i)(\b(?:password|passphrase)\s+)(?:\\*"[^"\\\n]+\\*"|'[^'\n]+')`)
	element = regexp.MustCompile(`<([A-Za-z_][A-Za-z0-9_.-]*)>[^<>]+</`)
	// tokenID is a token of Consul that follows that word. An AccessorID is no secret.
	tokenID = regexp.MustCompile(`(?i)\b((?:token|secret[ _-]?id)["'\s:=\\]+)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

	// assigned is a name with its value and, in a plan, the value from now on.
	assigned = regexp.MustCompile(namePart + separatorPart + `(` + valuePart + `)(?:(\s+->\s+)(` + valuePart + `))?`)
	// heredoc is a name with a text of several lines, as Terraform prints it.
	heredoc = regexp.MustCompile(`(?s)` + namePart + separatorPart + `<<[-~]?EOT(?:\n|\\n).*?(?:(?:\n|\\n)[\s+~-]*EOT\b|$)`)
	// collected is a name with a list or an object.
	collected = regexp.MustCompile(namePart + separatorPart + `((?:[a-z]+\(\s*)?[\[{])((?:[^\[\]{}]|[\[{][^\[\]{}]*[\]}])*)([\]}])`)
	item      = regexp.MustCompile(quotedPart)
	quotes    = regexp.MustCompile(`^(?:\\*"|')`)

	// harmless are values that are no secrets, whatever the name says.
	harmless = regexp.MustCompile(`^(?:true|false|null|arn:.*|~|->)?$`)
	number   = regexp.MustCompile(`^-?[0-9.]{1,5}$`)
)

// Clean returns a text without secrets.
func (c *Cleaner) Clean(content []byte) []byte {
	for _, secret := range c.known {
		content = bytes.ReplaceAll(content, secret, []byte(removed))
	}
	for _, form := range forms {
		content = form.ReplaceAll(content, []byte(removed))
	}
	content = userinfo.ReplaceAll(content, []byte("${1}"+removed+"@"))
	content = tokenUser.ReplaceAll(content, []byte("${1}"+removed+"@"))
	for _, form := range []*regexp.Regexp{header, authorization, option, said, tokenID} {
		content = form.ReplaceAll(content, []byte("${1}"+removed))
	}
	content = element.ReplaceAllFunc(content, func(match []byte) []byte {
		if tag := string(element.FindSubmatch(match)[1]); tag == "key" || redact.NamesSecret(tag) {
			return []byte("<" + tag + ">" + removed + "</")
		}
		return match
	})
	content = replace(heredoc, content, func(parts []string) string {
		return parts[1] + parts[2] + removed
	})
	content = replace(collected, content, func(parts []string) string {
		inside := string(unassigned([]byte(parts[4]), true))
		if strings.Contains(parts[3]+parts[4], "[") {
			inside = item.ReplaceAllStringFunc(inside, func(value string) string { return masked(value, true) })
		}
		return parts[1] + parts[2] + parts[3] + inside + parts[5]
	})
	return unassigned(content, false)
}

// replace replaces the matches whose name is that of a secret.
func replace(form *regexp.Regexp, content []byte, by func(parts []string) string) []byte {
	return form.ReplaceAllFunc(content, func(match []byte) []byte {
		parts := form.FindStringSubmatch(string(match))
		if parts == nil || !redact.NamesSecret(parts[1]) {
			return match
		}
		return []byte(by(parts))
	})
}

// unassigned returns a text in which names of secrets, or all names, have no values.
func unassigned(content []byte, all bool) []byte {
	return assigned.ReplaceAllFunc(content, func(match []byte) []byte {
		parts := assigned.FindStringSubmatch(string(match))
		secret := all || redact.NamesSecret(parts[1])
		out := parts[1] + parts[2] + masked(parts[3], secret)
		if parts[4] != "" {
			out += parts[4] + masked(parts[5], secret)
		}
		return []byte(out)
	})
}

// masked returns a value, with its quotes, without the secret that it is, or that it contains.
func masked(value string, secret bool) string {
	quote := quotes.FindString(value)
	if quote != "" && strings.HasSuffix(value, quote) && len(value) >= 2*len(quote) {
		value = value[len(quote) : len(value)-len(quote)]
	} else {
		quote = ""
	}
	switch {
	case secret && !harmless.MatchString(value) && value != removed && (quote != "" || !number.MatchString(value)):
		value = removed
	case quote != "":
		value = string(unassigned([]byte(value), false)) // a text may contain names, too
	}
	return quote + value + quote
}
