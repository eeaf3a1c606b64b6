package ecs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/terrapulse/terrapulse/internal/fault"
)

// requestError is a refused request to ECS.
type requestError struct {
	act    string
	kind   fault.Kind
	cause  error
	advice string // may be empty
}

func (e *requestError) Error() string {
	text := e.act + ": " + e.cause.Error()
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

func (e *requestError) Unwrap() error { return e.cause }

// Fault returns fault.Transient if ECS cannot be reached, throttles requests, has an internal error
// or no capacity. It returns fault.Person if a right is missing, or the stack names something wrong
// or missing.
func (e *requestError) Fault() fault.Kind { return e.kind }

const (
	adviceRoute    = "check that the function's subnets and security groups let it reach ECS (port 443), by NAT or a VPC endpoint"
	adviceLater    = "the next tick tries again"
	adviceCapacity = "the next tick tries again; subnets in more availability zones and FARGATE in the parameter Capacity help"
	adviceQuota    = "the next tick tries again; lower the parameter MaxContainers, or have AWS raise the account's quota of Fargate vCPUs"
	adviceRights   = "the role of functions/reconcile lacks this right: deploy the stack again, and check the parameter PermissionsBoundary and the organization's policies"
	adviceGone     = "the stack did not create it: deploy the stack again"
	adviceWrong    = "check the parameters for subnets, security groups, capacity and the runner, and deploy the stack again"
	adviceBlocked  = "the account is blocked: ask AWS Support"
)

// classify returns the error of a request with its kind. If the error code of ECS says little
// (InvalidParameterException, ClientException), it compares the message.
func classify(act string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", act, err)
	}
	e := &requestError{act: act, kind: fault.Transient, cause: err, advice: adviceLater}
	var api smithy.APIError
	if !errors.As(err, &api) {
		if u := new(url.Error); errors.As(err, &u) {
			e.cause = fmt.Errorf("no answer from %s: %w", u.URL, u.Err) // without the layers that say nothing
		}
		if dial := new(net.OpError); errors.As(err, &dial) && dial.Op == "dial" {
			e.advice = adviceRoute
		}
		return e
	}
	code := api.ErrorCode()
	e.cause = fmt.Errorf("%s: %s", code, api.ErrorMessage())
	switch code {
	case "ConflictException": // the same launch is being asked for at this moment
		return e
	case "LimitExceededException":
		e.kind, e.advice = fault.Transient, adviceQuota
		return e
	case "AccessDeniedException", "UnauthorizedOperation", "UnrecognizedClientException", "InvalidClientTokenId":
		e.kind, e.advice = fault.Person, adviceRights
		return e
	case "ClusterNotFoundException", "ResourceNotFoundException":
		e.kind, e.advice = fault.Person, adviceGone
		return e
	case "BlockedException":
		e.kind, e.advice = fault.Person, adviceBlocked
		return e
	}
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled {
		return e
	}
	if k, advice := words(api.ErrorMessage()); k != "" {
		e.kind, e.advice = k, advice
		return e
	}
	if answer := new(smithyhttp.ResponseError); errors.As(err, &answer) && answer.HTTPStatusCode() < 500 {
		e.kind, e.advice = fault.Person, adviceWrong
	}
	return e
}

// refused classifies a failure that RunTask returns in a successful answer.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/api_failures_messages.html
func refused(act string, f types.Failure) error {
	text := strings.TrimSuffix(aws.ToString(f.Reason)+": "+aws.ToString(f.Detail), ": ")
	if text == "" {
		text = "ECS started none, and does not say why"
	}
	e := &requestError{act: act, kind: fault.Transient, cause: errors.New(text), advice: adviceLater}
	if k, advice := words(text); k != "" {
		e.kind, e.advice = k, advice
		return e
	}
	switch reason := aws.ToString(f.Reason); {
	case strings.HasPrefix(reason, "RESOURCE:"), reason == "AGENT", reason == "LOCATION":
		e.kind, e.advice = fault.Transient, adviceCapacity
	case reason == "MISSING", reason == "INACTIVE":
		e.kind, e.advice = fault.Person, adviceGone
	case reason == "ATTRIBUTE":
		e.kind, e.advice = fault.Person, adviceWrong
	}
	return e
}

// words classifies a message of ECS; the kind is "" if it is unknown.
func words(message string) (fault.Kind, string) {
	message = strings.ToLower(message)
	has := func(s string) bool { return strings.Contains(message, s) }
	switch {
	// The requests of ECS itself to other services can be throttled, too.
	case has("requestlimitexceeded"), has("request limit exceeded"), has("rate exceeded"), has("too many concurrent"):
		return fault.Transient, adviceLater
	case has("reached the limit on the number of"), has("above your limit"), has("limit exceeded"):
		return fault.Transient, adviceQuota
	case has("capacity is unavailable"), has("insufficientfreeaddresses"):
		return fault.Transient, adviceCapacity
	case has("is not authorized to perform"), has("unable to assume the role"):
		return fault.Person, adviceRights
	}
	return "", ""
}
