package dynamic

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// argumentError is an error in the arguments of a function. It contains no argument that may have
// been looked up.
type argumentError struct{ problem string }

func (e *argumentError) Error() string { return e.problem }

// helpers are functions on texts, in addition to those of text/template. Names and order of
// arguments are Consul-Template's: the text is the last one, so that it can be piped in. Refused
// arguments may be secret, so errors do not contain them.
var helpers = template.FuncMap{
	"toLower":    strings.ToLower,
	"toUpper":    strings.ToUpper,
	"trim":       func(cutset, s string) string { return strings.Trim(s, cutset) },
	"trimPrefix": func(prefix, s string) string { return strings.TrimPrefix(s, prefix) },
	"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
	"trimSpace":  strings.TrimSpace,
	"replaceAll": func(from, to, s string) string { return strings.ReplaceAll(s, from, to) },
	"split":      func(sep, s string) []string { return strings.Split(s, sep) },
	"join":       func(sep string, list []string) string { return strings.Join(list, sep) },
	"contains":   func(element, list any) (bool, error) { return in(list, element) },
	"in":         in,

	"regexMatch": func(pattern, s string) (bool, error) {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return false, &argumentError{"regexMatch: the regular expression cannot be parsed"}
		}
		return re.MatchString(s), nil
	},
	"regexReplaceAll": func(pattern, by, s string) (string, error) {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return "", &argumentError{"regexReplaceAll: the regular expression cannot be parsed"}
		}
		return re.ReplaceAllString(s, by), nil
	},

	"base64Encode":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64Decode":    parseWith("base64Decode", "in base64", decoder(base64.StdEncoding)),
	"base64URLEncode": func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64URLDecode": parseWith("base64URLDecode", "in base64", decoder(base64.URLEncoding)),
	"sha256Hex": func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])
	},
	"hmacSHA256Hex": func(message, key string) string {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(message))
		return hex.EncodeToString(mac.Sum(nil))
	},

	"parseBool":  parseWith("parseBool", "true or false", strconv.ParseBool),
	"parseInt":   parseWith("parseInt", "a whole number", func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }),
	"parseFloat": parseWith("parseFloat", "a number", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }),
	"parseJSON": parseWith("parseJSON", "JSON", func(s string) (v any, err error) {
		if s == "" {
			return map[string]any{}, nil
		}
		err = json.Unmarshal([]byte(s), &v)
		return v, err
	}),
	"toJSON": func(v any) (string, error) {
		text, err := json.Marshal(v)
		if err != nil {
			return "", &argumentError{"toJSON: the value cannot be written as JSON"}
		}
		return string(text), nil
	},
}

func decoder(encoding *base64.Encoding) func(string) (string, error) {
	return func(s string) (string, error) {
		text, err := encoding.DecodeString(s)
		return string(text), err
	}
}

func parseWith[T any](name, format string, with func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := with(s)
		if err != nil {
			var none T
			return none, &argumentError{name + ": the text is not " + format}
		}
		return v, nil
	}
}

// in reports whether a list contains an element, or a text contains another one.
func in(list, element any) (bool, error) {
	v := reflect.ValueOf(list)
	switch v.Kind() {
	case reflect.String:
		part, ok := element.(string)
		return ok && strings.Contains(v.String(), part), nil
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if reflect.DeepEqual(v.Index(i).Interface(), element) {
				return true, nil
			}
		}
		return false, nil
	}
	return false, &argumentError{"in and contains need a list or a text"}
}
