package apiclient

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
)

// front is what AWS has in front of the API of a deployment.
type front struct {
	host    *regexp.Regexp // with the region
	service string         // for which requests are signed
	rights  string         // that a caller needs
}

var fronts = []front{
	{regexp.MustCompile(`^[a-z0-9]+\.lambda-url\.([a-z0-9-]+)\.on\.aws$`), "lambda", "lambda:InvokeFunctionUrl and lambda:InvokeFunction on the function behind this address"},
	{regexp.MustCompile(`^[a-z0-9]+(?:-vpce-[0-9a-f]+)?\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`), "execute-api", "execute-api:Invoke on the API behind this address"},
}

// frontOf returns what AWS has at a URL, and the region.
func frontOf(u *url.URL) (f front, region string, ok bool) {
	for _, f := range fronts {
		if m := f.host.FindStringSubmatch(u.Hostname()); m != nil {
			return f, m[1], true
		}
	}
	return front{}, "", false
}

// A signer signs requests to a function URL or to API Gateway with the AWS credentials
// that the AWS command line would use.
type signer struct {
	host            string // to which alone signed requests are sent
	service, region string
	next            http.RoundTripper

	mu       sync.Mutex
	provider aws.CredentialsProvider // nil: they are looked for when they are needed
}

func (s *signer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != s.host { // where a redirect leads
		return s.next.RoundTrip(req)
	}
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	credentials, err := s.credentials(req.Context())
	if err != nil {
		s.forget()
		return nil, fmt.Errorf("find AWS credentials to sign the request with: %w; sign in to AWS", err)
	}
	signed := req.Clone(req.Context())
	if req.Body != nil {
		signed.Body = io.NopCloser(bytes.NewReader(body))
	}
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(req.Context(), credentials, signed, hex.EncodeToString(hash[:]), s.service, s.region, time.Now()); err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	resp, err := s.next.RoundTrip(signed)
	if err == nil && resp.StatusCode == http.StatusForbidden {
		s.forget() // they may have expired, and others may be in a file
	}
	return resp, err
}

// credentials returns those that the AWS command line would use.
func (s *signer) credentials(ctx context.Context) (aws.Credentials, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provider == nil {
		cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(s.region), config.WithLogger(logging.Nop{}))
		if err != nil {
			return aws.Credentials{}, err
		}
		s.provider = cfg.Credentials
	}
	return s.provider.Retrieve(ctx)
}

func (s *signer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.provider = nil
}
