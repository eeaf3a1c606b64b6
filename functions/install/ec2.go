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
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// ec2 calls operations of EC2. The SDK's client of EC2 is ten times as large as this function.
type ec2 struct {
	cfg     aws.Config
	address string // such as https://ec2.eu-west-1.amazonaws.com
}

func newEC2(cfg aws.Config, address string) *ec2 { return &ec2{cfg: cfg, address: address} }

// ec2Error is an answer of EC2 that is an error.
type ec2Error struct {
	Status int
	Errors []struct{ Code, Message string } `xml:"Errors>Error"`
}

func (e *ec2Error) Error() string {
	if len(e.Errors) == 0 {
		return http.StatusText(e.Status)
	}
	return e.Errors[0].Code + ": " + e.Errors[0].Message
}

// isUnauthorized reports whether EC2 denies access.
func isUnauthorized(err error) bool {
	e := new(ec2Error)
	return errors.As(err, &e) && (e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized)
}

// call calls an operation, and decodes its answer into out.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Query-Requests.html
func (c *ec2) call(ctx context.Context, operation string, parameters url.Values, out any) error {
	parameters.Set("Action", operation)
	parameters.Set("Version", "2016-11-15")
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
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(hash[:]), "ec2", c.cfg.Region, time.Now()); err != nil {
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
		refusal := &ec2Error{Status: resp.StatusCode}
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

// ofVPC returns the parameters that filter by a VPC.
func ofVPC(id string) url.Values {
	return url.Values{"Filter.1.Name": {"vpc-id"}, "Filter.1.Value.1": {id}}
}
