package redact

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const (
	// shortestGuess is the minimum length of a value that counts as a secret because of its
	// variable's name alone: "test" and "admin" occur everywhere.
	shortestGuess = 6

	// shortestAWSKey is the minimum length of an access key's id in AWS.
	shortestAWSKey = 16

	// shortestUser is the minimum length of a user in a URL that counts as a token: git hosts
	// accept one in the place of a user.
	shortestUser = 20
)

var (
	// login is the user and the password in a URL.
	login = regexp.MustCompile(`://([^/\s:@"]*)(?::([^/\s@"]*))?@`)
	// authorization is the value of that header, as git's http.extraHeader has it.
	authorization = regexp.MustCompile(`(?i)\bauthorization:\s*(?:[a-z0-9-]+\s+)?(\S+)`)
)

// Environment returns the secrets in an environment, which is in the format of os.Environ: the
// values of variables that are named like secrets, such as TF_TOKEN_app_terraform_io, and the
// passwords and tokens in URLs and headers.
func Environment(environ []string) []string {
	var secrets []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		secrets = append(secrets, in(value, isSecret(name, value))...)
	}
	return secrets
}

// Argument returns the secrets in the value of an argument or a variable of a provider: the value, if it
// is one by its name, and the passwords and tokens in URLs and headers.
func Argument(name, value string) []string { return in(value, namesArgument(name)) }

// in returns the passwords and tokens in URLs and headers; secret says that the value is a secret, too.
func in(value string, secret bool) []string {
	var secrets []string
	for _, found := range login.FindAllStringSubmatch(value, -1) {
		secrets = append(secrets, decoded(found[2])...)
		if len(found[1]) >= shortestUser {
			secrets = append(secrets, decoded(found[1])...)
		}
	}
	for _, found := range authorization.FindAllStringSubmatch(value, -1) {
		secrets = append(secrets, found[1])
	}
	if secret {
		secrets = append(append(secrets, value), inObject(value)...)
	}
	return secrets
}

// decoded returns a part of a URL as it is written, and what it means.
func decoded(part string) []string {
	plain, err := url.PathUnescape(part)
	if err != nil || plain == part {
		return []string{part}
	}
	return []string{part, plain}
}

// isSecret reports whether the value of a variable is a secret, by its name.
func isSecret(name, value string) bool {
	switch {
	case strings.HasPrefix(name, "TF_TOKEN_"): // a name of a host follows
		return true
	case name == "AWS_ACCESS_KEY_ID":
		return len(value) >= shortestAWSKey
	case !NamesSecret(name) || len(value) < shortestGuess || strings.HasPrefix(value, "arn:"):
		return false
	}
	_, err := strconv.ParseFloat(value, 64)
	return (err != nil || len(value) >= ShortestNumber) && !isFile(value)
}

// isFile reports whether a value is the path of a file: some variables accept a key or its file.
func isFile(value string) bool {
	if !filepath.IsAbs(value) && !strings.HasPrefix(value, ".") && !strings.HasPrefix(value, "~/") {
		return false
	}
	if strings.HasPrefix(value, "~/") {
		return true
	}
	_, err := os.Lstat(value)
	return err == nil
}

// inObject returns the secrets in a JSON object, such as the one in GOOGLE_CREDENTIALS.
func inObject(value string) []string {
	var object map[string]any
	if json.Unmarshal([]byte(value), &object) != nil {
		return nil
	}
	var secrets []string
	for key, v := range object {
		if text, ok := v.(string); ok && NamesSecret(key) {
			secrets = append(secrets, text)
		}
	}
	return secrets
}
