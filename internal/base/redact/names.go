package redact

import (
	"regexp"
	"slices"
	"strings"
)

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// secretWords are names of credentials: a key with these words in sequence is the name of a
// credential.
var secretWords = []string{
	"token", "tokens", "password", "passwords", "passwd", "passphrase", "pwd", "secret", "secrets", "credential", "credentials",
	"api key", "apikey", "private key", "access key", "secret key", "auth key", "encryption key", "shared key", "account key", "signing key",
}

// aspects are last words of keys that describe a credential but do not contain it.
var aspects = map[string]bool{
	"file": true, "files": true, "path": true, "dir": true, "name": true, "names": true, "arn": true, "url": true, "uri": true, "endpoint": true,
	"id": true, "ids": true, "ttl": true, "period": true, "duration": true, "timeout": true, "expiry": true, "expiration": true, "age": true,
	"length": true, "size": true, "type": true, "version": true, "enabled": true, "required": true, "policy": true, "policies": true,
	"rotation": true, "prefix": true, "store": true, "namespace": true, "engine": true, "mount": true, "role": true, "env": true, "region": true,
	"algorithm": true, "format": true, "header": true, "reader": true, "manager": true, "count": true,
}

// words splits a key into words: clientSecret, client-secret and CLIENT_SECRET become client
// secret.
func words(key string) []string {
	key = strings.ToLower(wordStart.ReplaceAllString(key, "${1}_${2}"))
	return strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune("_-. ", r) })
}

// Words returns the words of a key, each between spaces.
func Words(key string) string { return " " + strings.Join(words(key), " ") + " " }

// NamesCredential reports whether a key is the name of a credential, such as clientSecret or
// CONSUL_HTTP_TOKEN, and not of something about it, such as token_file.
func NamesCredential(key string) bool {
	all, joined := words(key), Words(key)
	return len(all) > 0 && !aspects[all[len(all)-1]] &&
		slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(joined, " "+w+" ") })
}

// otherSecrets are the last words of further names of secrets, in programs that are not configured
// by Terrapulse.
var otherSecrets = regexp.MustCompile(`(?i)(?:password|passwd|passphrase|(?:^|[_.-])(?:psk|passcode|community|phash|signature|sig|dsn|conn(?:ection)?_?str(?:ing)?|cookie|webhook_?url|(?:pan|routing|integration|license)[_-]?key))$`)

// NamesSecret reports whether a key is the name of a credential, or of another value that should
// not be shown.
func NamesSecret(key string) bool { return NamesCredential(key) || otherSecrets.MatchString(key) }

// providerSecrets are the last words of further names of secrets among the arguments of providers.
var providerSecrets = regexp.MustCompile(`(?i)(?:^|[_.-])(?:key|auth|pin|secret_?id|key_material|authorization)$`)

// namesArgument reports whether an argument of a provider is a secret by its name.
func namesArgument(key string) bool { return NamesSecret(key) || providerSecrets.MatchString(key) }
