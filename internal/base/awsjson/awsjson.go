// Package awsjson calls single operations of AWS services without the SDK's clients of these
// services: the client of SSM alone makes a function 1.2 MB larger, and that of EventBridge 0.4 MB.
// The SDK does the rest: signatures, retries, hosts and errors.
package awsjson

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Action is an operation. Its name is that of the right that it needs.
type Action string

// The operations.
const (
	GetSecretValue   Action = "secretsmanager:GetSecretValue"
	GetParameter     Action = "ssm:GetParameter"
	PutEvents        Action = "events:PutEvents"
	DescribeEventBus Action = "events:DescribeEventBus"

	DescribeTable      Action = "dynamodb:DescribeTable"
	DescribeTimeToLive Action = "dynamodb:DescribeTimeToLive"

	// Those that commands use.
	FilterLogEvents    Action = "logs:FilterLogEvents"
	GetQueueAttributes Action = "sqs:GetQueueAttributes"
	DescribeAlarms     Action = "cloudwatch:DescribeAlarms"
	GetMetricData      Action = "cloudwatch:GetMetricData"
)

// services are the services, by their names in actions.
var services = map[string]struct {
	id      string // in the names of environment variables
	host    string // in hosts and signatures
	version string // of AWS's JSON protocol
	target  string // in the header that names the operation
}{
	"secretsmanager": {"Secrets Manager", "secretsmanager", "1.1", "secretsmanager"},
	"ssm":            {"SSM", "ssm", "1.1", "AmazonSSM"},
	"events":         {"EventBridge", "events", "1.1", "AWSEvents"},
	"dynamodb":       {"DynamoDB", "dynamodb", "1.0", "DynamoDB_20120810"},
	"logs":           {"CloudWatch Logs", "logs", "1.1", "Logs_20140328"},
	"sqs":            {"SQS", "sqs", "1.0", "AmazonSQS"},
	"cloudwatch":     {"CloudWatch", "monitoring", "1.0", "GraniteServiceVersion20100801"},
}

// maxAnswer limits how much of an answer is read.
const maxAnswer = 16 << 20

// Client calls operations. It is safe for concurrent use.
type Client struct {
	cfg    aws.Config
	sdk    dynamodb.Options // what the SDK makes of cfg for any service
	signer *v4.Signer
}

// New returns a client that uses an AWS configuration.
func New(cfg aws.Config) *Client {
	return &Client{cfg: cfg, sdk: dynamodb.NewFromConfig(cfg).Options(), signer: v4.NewSigner()}
}

// Call calls an operation with an input, and decodes its answer into out. The region is that of the
// configuration if it is "". Errors have the types of the SDK.
func (c *Client) Call(ctx context.Context, action Action, region string, in, out any) error {
	name, operation, _ := strings.Cut(string(action), ":")
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the input of %s: %w", action, err)
	}
	region = cmp.Or(region, c.cfg.Region)
	address, err := c.endpoint(ctx, name, region)
	if err != nil {
		return fmt.Errorf("find the address of %s in %s: %w", name, region, err)
	}
	attempt := 0
	attempts := retry.NewAttemptMiddleware(c.sdk.Retryer, func(request any) any { return request })
	_, _, err = attempts.HandleFinalize(ctx, middleware.FinalizeInput{}, middleware.FinalizeHandlerFunc(
		func(ctx context.Context, _ middleware.FinalizeInput) (o middleware.FinalizeOutput, m middleware.Metadata, err error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
			if err != nil {
				return o, m, err
			}
			req.Header.Set("Content-Type", "application/x-amz-json-"+services[name].version)
			req.Header.Set("X-Amz-Target", services[name].target+"."+operation)
			req.Header.Set("User-Agent", "terrapulse")
			attempt++
			req.Header.Set("Amz-Sdk-Request", fmt.Sprintf("attempt=%d; max=%d", attempt, c.sdk.Retryer.MaxAttempts()))
			return o, m, c.send(ctx, req, body, services[name].host, region, out)
		}))
	if err != nil {
		return &smithy.OperationError{ServiceID: services[name].id, OperationName: operation, Err: err}
	}
	return nil
}

// endpoint is the address of a service.
func (c *Client) endpoint(ctx context.Context, service, region string) (string, error) {
	for _, source := range c.cfg.ConfigSources {
		configured, ok := source.(interface {
			GetServiceBaseEndpoint(ctx context.Context, sdkID string) (string, bool, error)
		})
		if !ok {
			continue
		}
		if address, found, err := configured.GetServiceBaseEndpoint(ctx, services[service].id); err != nil || found {
			return address, err
		}
	}
	if c.cfg.BaseEndpoint != nil {
		return *c.cfg.BaseEndpoint, nil
	}
	// Hosts in a region differ in their first label only. The client of DynamoDB is in nearly every
	// function anyway.
	fips := c.sdk.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled
	dual := c.sdk.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled &&
		service != "secretsmanager" // whose hosts always are
	resolved, err := c.sdk.EndpointResolverV2.ResolveEndpoint(ctx, dynamodb.EndpointParameters{
		Region: &region, UseFIPS: &fips, UseDualStack: &dual,
	})
	if err != nil || service == "dynamodb" {
		return resolved.URI.String(), err
	}
	label, rest, found := strings.Cut(resolved.URI.Host, ".")
	if !found || strings.TrimSuffix(label, "-fips") != "dynamodb" {
		return "", fmt.Errorf("%s is not a host of DynamoDB", resolved.URI.Host)
	}
	label = services[service].host
	if fips {
		label += "-fips" // DynamoDB has hosts in GovCloud that are not called so
	}
	return (&url.URL{Scheme: resolved.URI.Scheme, Host: label + "." + rest, Path: "/"}).String(), nil
}

// send signs and sends a request once, and decodes the answer.
func (c *Client) send(ctx context.Context, req *http.Request, body []byte, service, region string, out any) error {
	if c.cfg.Credentials == nil {
		return errors.New("there are no credentials for AWS")
	}
	credentials, err := c.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("get credentials for AWS: %w", err)
	}
	hash := sha256.Sum256(body)
	if err := c.signer.SignHTTP(ctx, credentials, req, hex.EncodeToString(hash[:]), service, region, time.Now()); err != nil {
		return err
	}
	resp, err := c.sdk.HTTPClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return &aws.RequestCanceledError{Err: ctx.Err()}
		}
		return &smithyhttp.RequestSendError{Err: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode/100 != 2:
		err = refusal(resp, answer)
	case err == nil:
		err = json.Unmarshal(answer, out)
	}
	if err == nil {
		return nil
	}
	return &awshttp.ResponseError{RequestID: resp.Header.Get("X-Amzn-Requestid"),
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: err}}
}

// Refusal is the error that a service answers.
type Refusal struct {
	smithy.GenericAPIError
	Answer []byte // in JSON
}

// refusal returns the error that a service answers.
func refusal(resp *http.Response, answer []byte) error {
	var said struct {
		Type    string `json:"__type"`
		Message string `json:"message"` // any case
	}
	_ = json.Unmarshal(answer, &said) // an answer that is no JSON has a status
	code := cmp.Or(resp.Header.Get("X-Amzn-Errortype"), said.Type, "UnknownError")
	code, _, _ = strings.Cut(code, ":")              // an address follows
	code = code[strings.LastIndexByte(code, '#')+1:] // after a namespace
	fault := smithy.FaultClient
	if resp.StatusCode >= http.StatusInternalServerError {
		fault = smithy.FaultServer
	}
	return &Refusal{smithy.GenericAPIError{Code: code, Message: said.Message, Fault: fault}, answer}
}
