package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// query calls operations of a service with AWS's query protocol. The SDK's clients of EC2 and IAM
// are ten times as large as this function.
type query struct {
	cfg     aws.Config
	service string // in signatures
	region  string // in signatures
	version string
	address string // such as https://ec2.eu-west-1.amazonaws.com
}

func newEC2(cfg aws.Config, address string) *query {
	return &query{cfg: cfg, service: "ec2", region: cfg.Region, version: "2016-11-15", address: address}
}

// newIAM returns a client of IAM, which each partition has once.
// https://docs.aws.amazon.com/general/latest/gr/iam-service.html
func newIAM(cfg aws.Config, address string) *query {
	region := "us-east-1"
	switch {
	case strings.HasPrefix(cfg.Region, "cn-"):
		region = "cn-north-1"
	case strings.HasPrefix(cfg.Region, "us-gov-"):
		region = "us-gov-west-1"
	}
	return &query{cfg: cfg, service: "iam", region: region, version: "2010-05-08", address: address}
}

// queryError is an answer that is an error. EC2 lists errors; IAM has one.
type queryError struct {
	Status int
	Errors []queryFault `xml:"Errors>Error"`
	One    *queryFault  `xml:"Error"`
}

type queryFault struct{ Code, Message string }

func (e *queryError) first() queryFault {
	switch {
	case e.One != nil:
		return *e.One
	case len(e.Errors) > 0:
		return e.Errors[0]
	}
	return queryFault{Code: http.StatusText(e.Status)}
}

func (e *queryError) Error() string {
	fault := e.first()
	return strings.TrimSuffix(fault.Code+": "+fault.Message, ": ")
}

// isUnauthorized reports whether a service denies access.
func isUnauthorized(err error) bool {
	e := new(queryError)
	return errors.As(err, &e) && (e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized)
}

// call calls an operation, and decodes its answer into out.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Query-Requests.html and
// https://docs.aws.amazon.com/IAM/latest/UserGuide/programming.html
func (c *query) call(ctx context.Context, operation string, parameters url.Values, out any) error {
	parameters.Set("Action", operation)
	parameters.Set("Version", c.version)
	body := parameters.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address+"/", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	credentials, err := c.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("get credentials for AWS: %w", err)
	}
	hash := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(hash[:]), c.service, c.region, time.Now()); err != nil {
		return err
	}
	resp, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	if resp.StatusCode != http.StatusOK {
		refusal := &queryError{Status: resp.StatusCode}
		_ = xml.Unmarshal(answer, refusal) // without it, the status must do
		return fmt.Errorf("%s: %w", operation, refusal)
	}
	if err := xml.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return nil
}

// list returns the parameters of a list, such as SubnetId.1 and SubnetId.2.
func list(name string, values ...string) url.Values {
	parameters := url.Values{}
	for i, v := range values {
		parameters.Set(fmt.Sprintf("%s.%d", name, i+1), v)
	}
	return parameters
}
