package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// settings are those of https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
type settings struct {
	url     string
	headers http.Header
	gzip    bool
	timeout time.Duration // of a request
	tls     *tls.Config   // nil for the default
}

// read reads the settings. No error shows the value of a header or a URL, which may hold a key.
func read(getenv func(string) string) (s settings, err error) {
	get := func(name string) string {
		return cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	if p := get("PROTOCOL"); p != "" && p != "http/protobuf" {
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: Terrapulse sends http/protobuf only, usually to port 4318", p)
	}
	if s.url, err = endpoint(getenv); err != nil {
		return s, err
	}
	if s.headers, err = headers(get("HEADERS")); err != nil {
		return s, err
	}
	switch c := get("COMPRESSION"); c {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q: set gzip or none", c)
	}
	s.timeout = 10 * time.Second
	if text := get("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return s, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q: set a number of milliseconds", text)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	s.tls, err = certificates(get("CERTIFICATE"), get("CLIENT_CERTIFICATE"), get("CLIENT_KEY"))
	return s, err
}

// endpoint is the URL for traces: as it is, or below the endpoint of all signals.
func endpoint(getenv func(string) string) (string, error) {
	name, below := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""
	if getenv(name) == "" {
		name, below = "OTEL_EXPORTER_OTLP_ENDPOINT", "v1/traces"
	}
	u, err := url.Parse(getenv(name))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s is not the URL of a receiver, such as http://localhost:4318", name)
	}
	if below != "" {
		u = u.JoinPath(below)
	}
	return u.String(), nil
}

// headers reads name=value pairs with commas between them, with values as in URLs.
func headers(text string) (http.Header, error) {
	all := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || err != nil || name == "" || strings.ContainsAny(name+value, "\r\n\x00") {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list such as api-key=VALUE,other=VALUE")
		}
		all.Set(name, value)
	}
	return all, nil
}

func certificates(ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" {
		return nil, nil
	}
	c := new(tls.Config)
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate in PEM", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
