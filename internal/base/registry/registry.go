// Package registry reads what a registry of Terraform's providers and modules answers, and finds its services.
//
// https://developer.hashicorp.com/terraform/internals/remote-service-discovery
package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// maxAnswer limits an answer. The list of the versions of a provider has up to 2 MB.
const maxAnswer = 32 << 20

// Answer is an answer with the status 200.
type Answer struct {
	Header http.Header
	Body   []byte
	URL    *url.URL // after redirects
}

// StatusError is an answer with another status.
type StatusError struct {
	Code int
	URL  string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answers %d %s", e.URL, e.Code, http.StatusText(e.Code))
}

// Get reads a URL of a registry. The header, which may be nil, has the credentials.
func Get(ctx context.Context, client *http.Client, at string, header http.Header) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return Answer{}, err
	}
	if header != nil {
		request.Header = header
	}
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Answer{}, &StatusError{response.StatusCode, at}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return Answer{}, fmt.Errorf("read %s: %w", at, err)
	}
	return Answer{response.Header, body, response.Request.URL}, nil
}

// Services returns the URLs of the services of a host by their names, such as providers.v1.
func Services(ctx context.Context, client *http.Client, host string) (map[string]*url.URL, error) {
	at := "https://" + host + "/.well-known/terraform.json"
	got, err := Get(ctx, client, at, nil)
	if err != nil {
		return nil, err
	}
	var named map[string]any // a service may be an object
	if err := json.Unmarshal(got.Body, &named); err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	services := map[string]*url.URL{}
	for name, value := range named {
		text, _ := value.(string)
		if u, err := got.URL.Parse(text); err == nil && text != "" {
			services[name] = u
		}
	}
	return services, nil
}
