// Package redact makes secrets unreadable in the output of other programs, such as
// Terraform and its providers, in all the forms in which they print them.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ShortestNumber is the minimum length of a secret number, in digits: shorter ones
// are ports and times.
const ShortestNumber = 6

// Redacted replaces a secret.
const Redacted = "(redacted)"

// shortestSecret is the minimum length of a secret, in bytes: shorter values are
// words like "tcp", and replacing them would garble the text.
const shortestSecret = 4

// word is a secret that is hidden only where it stands alone: it may be a part of a longer word, such as
// default in default_data.
var word = regexp.MustCompile(`^[A-Za-z]{1,12}$`)

// encoded replaces the base64 of a secret until the text around it is removed.
const encoded = "\x00"

// inBase64 is a text in base64 that holds a secret.
var inBase64 = regexp.MustCompile(`[A-Za-z0-9+/_=-]*\x00[A-Za-z0-9+/_=\x00-]*`)

// Scrubber makes secrets unreadable in a text.
type Scrubber struct {
	replace *strings.Replacer
	broken  *regexp.Regexp // secrets with spaces where lines may end; nil for none
	alone   *regexp.Regexp // numbers and words; nil for none
}

// New returns a scrubber of these texts, and of the secrets in the values of variables in JSON, which
// may be nil: of an object, which has the arguments of a provider, those that are secrets by their
// names; else all texts and long numbers.
func New(values []byte, texts ...string) *Scrubber {
	secrets := map[string]string{} // by spelling, what takes its place
	var broken, alone []string
	add := func(s string) {
		for _, line := range strings.Split(s, "\n") { // output is seen line by line
			line = strings.TrimSpace(line)
			if len(line) < shortestSecret || line == "true" || line == "false" || line == "null" {
				continue
			}
			for _, text := range base64Of(line) {
				secrets[text] = encoded
			}
			if word.MatchString(line) {
				alone = append(alone, line)
				continue
			}
			for _, text := range Spellings(line) {
				secrets[text] = Redacted
			}
			for _, text := range slices.Compact([]string{line, inQuotes(line)}) {
				if words := strings.Fields(text); len(words) > 1 && utf8.ValidString(text) {
					for i, w := range words {
						words[i] = regexp.QuoteMeta(w)
					}
					broken = append(broken, strings.Join(words, `[\s│]+`)) // with the frame that Terraform draws
				}
			}
		}
	}
	var walk func(v any, secret bool)
	walk = func(v any, secret bool) {
		switch v := v.(type) {
		case string:
			for _, text := range in(v, secret) {
				add(text)
			}
		case json.Number:
			if secret && len(v) >= ShortestNumber {
				alone = append(alone, regexp.QuoteMeta(strings.TrimPrefix(v.String(), "-")))
				for _, text := range base64Of(v.String()) {
					secrets[text] = encoded
				}
			}
		case []any:
			for _, e := range v {
				walk(e, secret)
			}
		case map[string]any:
			for key, e := range v {
				walk(e, secret || namesArgument(key))
			}
		}
	}
	var decoded any
	decoder := json.NewDecoder(bytes.NewReader(values))
	decoder.UseNumber()
	if decoder.Decode(&decoded) == nil {
		all, _ := decoded.(map[string]any)
		for _, v := range all {
			_, provider := v.(map[string]any)
			walk(v, !provider)
		}
	}
	for _, text := range texts {
		add(text)
	}
	// The longest first: one secret may begin with another.
	spelled := slices.SortedFunc(maps.Keys(secrets), func(a, b string) int { return len(b) - len(a) })
	slices.SortFunc(broken, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(spelled))
	for _, text := range spelled {
		pairs = append(pairs, text, secrets[text])
	}
	scrub := &Scrubber{replace: strings.NewReplacer(pairs...)}
	if len(broken) > 0 {
		scrub.broken = regexp.MustCompile(strings.Join(broken, "|"))
	}
	if len(alone) > 0 {
		scrub.alone = regexp.MustCompile(`\b(?:` + strings.Join(alone, "|") + `)\b`)
	}
	return scrub
}

// Text makes secrets unreadable in one text.
func Text(text string, secrets []string) string {
	return New(nil, secrets...).Clean(text)
}

// Clean makes the secrets unreadable in a text.
func (s *Scrubber) Clean(text string) string {
	if s.broken != nil && strings.ContainsAny(text, "\n│") {
		text = s.broken.ReplaceAllString(text, Redacted)
	}
	text = s.replace.Replace(text)
	if strings.Contains(text, encoded) {
		text = inBase64.ReplaceAllString(text, Redacted)
	}
	if s.alone != nil {
		text = s.alone.ReplaceAllString(text, Redacted)
	}
	return text
}

// Spellings are the forms of a secret in the output of Terraform and providers:
// unchanged, in Go's and HCL's quotes, in JSON, in JSON within JSON, and in a URL.
func Spellings(secret string) []string {
	quoted := inQuotes(secret)
	texts := []string{secret, quoted}
	for _, s := range []string{secret, quoted} {
		texts = append(texts, strings.NewReplacer("${", "$${", "%{", "%%{").Replace(s))
	}
	for _, html := range []bool{false, true} {
		once := inJSON(secret, html)
		texts = append(texts, once, inJSON(once, html), strings.ReplaceAll(once, "/", `\/`))
	}
	form := url.QueryEscape(secret)
	texts = append(texts, form, strings.ReplaceAll(form, "+", "%20"), url.PathEscape(secret), url.User(secret).String())
	for _, text := range texts {
		texts = append(texts, hexDigits.ReplaceAllStringFunc(text, otherCase))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// inQuotes is a text as Go and HCL have it between quotes.
func inQuotes(s string) string {
	s = strconv.Quote(s)
	return s[1 : len(s)-1]
}

// hexDigits are a character as a URL or JSON encodes it.
var hexDigits = regexp.MustCompile(`%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}`)

// otherCase is an encoded character with its digits in the other case.
func otherCase(text string) string {
	if strings.HasPrefix(text, "%") {
		return strings.ToLower(text)
	}
	return `\u` + strings.ToUpper(text[2:])
}

// inJSON is a text as it is between the quotes of a string in JSON.
func inJSON(s string, html bool) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(html)
	if encoder.Encode(s) != nil {
		return s
	}
	return strings.Trim(strings.TrimSuffix(text.String(), "\n"), `"`)
}

// base64Of returns what a secret becomes in the base64 of a text that contains it,
// such as a header of basic authentication, without the characters at its ends:
// they depend on the text around it.
func base64Of(secret string) []string {
	var texts []string
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before, mixed := range []int{0, 2, 3} { // bytes before the secret, characters that they have a part in
			text := encoding.EncodeToString(append(make([]byte, before), secret...))
			text = text[mixed:]
			if (before+len(secret))%3 != 0 {
				text = text[:len(text)-1]
			}
			if len(text) >= shortestSecret {
				texts = append(texts, text)
			}
		}
	}
	return texts
}
