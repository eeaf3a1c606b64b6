package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func TestScrubber_SecretsInEveryEncoding(t *testing.T) {
	const secret = `p4&ss<wo/rd+"1`
	vars, err := json.Marshal(map[string]any{"postgresql": map[string]any{"password": secret, "pin": 738291, "port": 5432, "token": "a${b}c-secret"}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(vars)
	quoted := func(v string) string {
		text, _ := json.Marshal(v)
		return strings.Trim(string(text), `"`)
	}
	basic := func(e *base64.Encoding, user string) string { return e.EncodeToString([]byte(user + ":" + secret)) }
	escaped := url.QueryEscape(secret)
	for name, c := range map[string]struct{ text, secret string }{
		"plain":                    {"password is " + secret, secret},
		"JSON":                     {"body: " + quoted(secret), quoted(secret)},
		"JSON, upper case":         {`p4\u0026ss\u003Cwo/rd+\"1`, `u003C`},
		"JSON without HTML":        {`{"p": "p4&ss<wo/rd+\"1"}`, `p4&ss`},
		"JSON within JSON":         {quoted(`{"password":"` + quoted(secret) + `"}`), quoted(quoted(secret))},
		"JSON with escaped slash":  {`p4&ss<wo\/rd+\"1`, `ss<wo`},
		"URL":                      {"postgres://u:" + escaped + "@h", escaped},
		"URL, lower case":          {"postgres://u:" + strings.ToLower(escaped) + "@h", strings.ToLower(escaped)},
		"path of a URL":            {"http://h/" + url.PathEscape(secret), url.PathEscape(secret)},
		"user of a URL":            {url.UserPassword("u", secret).String(), "p4&ss"},
		"basic authentication":     {"Authorization: Basic " + basic(base64.StdEncoding, "u"), basic(base64.StdEncoding, "u")},
		"a longer user":            {"Authorization: Basic " + basic(base64.StdEncoding, "us"), basic(base64.StdEncoding, "us")[8:14]},
		"an even longer one":       {"Authorization: Basic " + basic(base64.StdEncoding, "usr"), basic(base64.StdEncoding, "usr")[8:14]},
		"base64 for URLs":          {"token=" + basic(base64.RawURLEncoding, "u") + "&x", basic(base64.RawURLEncoding, "u")[4:12]},
		"number":                   {"pin = 738291", "738291"},
		"number in JSON":           {`{"pin":738291}`, "738291"},
		"HCL's template":           {`+ token = "a$${b}c-secret"`, "c-secret"},
		"secret, as it is written": {`+ token = "a${b}c-secret"`, "c-secret"},
	} {
		if got := s.Clean(c.text); strings.Contains(got, c.secret) || !strings.Contains(got, Redacted) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, text := range []string{"port 5432 of 17382910", "Basic settings", "Apply complete! Resources: 1 added", `{"a":"b"}`} {
		if got := s.Clean(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// What people approve must be readable, whatever words the configuration of a provider has.
func TestScrubber_OnlySecretsAndNoPartsOfWords(t *testing.T) {
	vars, err := json.Marshal(map[string]any{
		"one": map[string]any{"alias": "main", "protocol": "https", "profile": "default", "insecure": "true", "zone": 100200300, "url": "https://ann:pa55wd-of-ann@host.example",
			"auth_tokens": map[string]any{"first": "in-an-object"}, "password": "terraform", "api_key": 987654321, "secret_id": "ab12"},
		"template": "looked-up",
	})
	if err != nil {
		t.Fatal(err)
	}
	s := New(vars, "default", "true")
	for text, want := range map[string]string{
		"terraform_data.main over https, note = \"true after apply\"":       "terraform_data.main over https, note = \"true after apply\"",
		"zone = \"default\", default_data, defaults, vlan 100200300":        "zone = \"(redacted)\", default_data, defaults, vlan 100200300",
		"terraform: is \"terraform\", host.example, pa55wd-of-ann":          "(redacted): is \"(redacted)\", host.example, (redacted)",
		"in-an-object 987654321 xin-an-objectx ab12 looked-up":              "(redacted) (redacted) x(redacted)x (redacted) (redacted)",
		"Basic " + base64.StdEncoding.EncodeToString([]byte("u:terraform")): "Basic (redacted)",
	} {
		if got := s.Clean(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func BenchmarkScrubber(b *testing.B) {
	secrets := make([]string, 20)
	for i := range secrets {
		secrets[i] = strings.Repeat(string(rune('a'+i)), 30) + "/+ x"
	}
	s := New(nil, secrets...)
	line := "module.web.local_file.names[\"abc\"]: Creation complete after 0s [id=00326f293125e32dd4937df45f4c43823184cebe]"
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		s.Clean(line)
	}
}
