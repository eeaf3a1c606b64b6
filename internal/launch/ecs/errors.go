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
)

// kind is what an error means for whoever has to deal with it. A requestError
// is its kind, in the sense of errors.Is.
type kind int

const (
	unavailable kind = iota + 1 // passes: try again
	capacity                    // passes when there is room again
	person
)

func (k kind) Error() string {
	return [...]string{"", "unavailable", "no capacity", "needs a person"}[k]
}

// requestError is one request to ECS that was not granted.
type requestError struct {
	act    string
	kind   kind
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

func (e *requestError) Is(target error) bool { return target == e.kind }

// IsUnavailable reports whether the error passes by itself: ECS cannot be
// reached, throttles, or has a fault of its own.
func IsUnavailable(err error) bool { return errors.Is(err, unavailable) }

// IsCapacity reports whether there is no room for one more container: Fargate
// has none, or the account's quota is used up. Both may pass by themselves.
func IsCapacity(err error) bool { return errors.Is(err, capacity) }

// NeedsPerson reports whether the error stays until somebody changes
// something: a right is missing, or what the stack names is wrong or gone.
func NeedsPerson(err error) bool { return errors.Is(err, person) }

const (
	adviceRoute    = "check that the function's subnets and security groups let it reach ECS (port 443), by NAT or a VPC endpoint"
	adviceLater    = "it is tried again with the next tick"
	adviceCapacity = "it is tried again with the next tick; subnets in more availability zones and FARGATE in the parameter Capacity help"
	adviceQuota    = "it is tried again with the next tick; lower the parameter MaxContainers, or have AWS raise the account's quota of Fargate vCPUs"
	adviceRights   = "the role of functions/reconcile lacks this right: deploy the stack again, and look at the parameter PermissionsBoundary and the organization's policies"
	adviceGone     = "it is not what the stack has made: deploy the stack again"
	adviceWrong    = "check the parameters for subnets, security groups, capacity and the runner, and deploy the stack again"
	adviceBlocked  = "the account is blocked: ask AWS Support"
)

// classify tells what the error of a request means. Where the code of ECS's
// error says little (InvalidParameterException, ClientException), its words
// count.
func classify(act string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", act, err)
	}
	e := &requestError{act: act, kind: unavailable, cause: err, advice: adviceLater}
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
		e.kind, e.advice = capacity, adviceQuota
		return e
	case "AccessDeniedException", "UnauthorizedOperation", "UnrecognizedClientException", "InvalidClientTokenId":
		e.kind, e.advice = person, adviceRights
		return e
	case "ClusterNotFoundException", "ResourceNotFoundException":
		e.kind, e.advice = person, adviceGone
		return e
	case "BlockedException":
		e.kind, e.advice = person, adviceBlocked
		return e
	}
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled {
		return e
	}
	if k, advice := words(api.ErrorMessage()); k != 0 {
		e.kind, e.advice = k, advice
		return e
	}
	if answer := new(smithyhttp.ResponseError); errors.As(err, &answer) && answer.HTTPStatusCode() < 500 {
		e.kind, e.advice = person, adviceWrong
	}
	return e
}

// refused tells what one of the failures means that RunTask names in an answer
// that is no error.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/api_failures_messages.html
func refused(act string, f types.Failure) error {
	text := strings.TrimSuffix(aws.ToString(f.Reason)+": "+aws.ToString(f.Detail), ": ")
	if text == "" {
		text = "ECS started none, and does not say why"
	}
	e := &requestError{act: act, kind: unavailable, cause: errors.New(text), advice: adviceLater}
	if k, advice := words(text); k != 0 {
		e.kind, e.advice = k, advice
		return e
	}
	switch reason := aws.ToString(f.Reason); {
	case strings.HasPrefix(reason, "RESOURCE:"), reason == "AGENT", reason == "LOCATION":
		e.kind, e.advice = capacity, adviceCapacity
	case reason == "MISSING", reason == "INACTIVE":
		e.kind, e.advice = person, adviceGone
	case reason == "ATTRIBUTE":
		e.kind, e.advice = person, adviceWrong
	}
	return e
}

// words tells what a message of ECS means, 0 if it is none of those known.
func words(message string) (kind, string) {
	message = strings.ToLower(message)
	has := func(s string) bool { return strings.Contains(message, s) }
	switch {
	// What ECS itself asks other services for is throttled, too.
	case has("requestlimitexceeded"), has("request limit exceeded"), has("rate exceeded"), has("too many concurrent"):
		return unavailable, adviceLater
	case has("reached the limit on the number of"), has("above your limit"), has("limit exceeded"):
		return capacity, adviceQuota
	case has("capacity is unavailable"), has("insufficientfreeaddresses"):
		return capacity, adviceCapacity
	case has("is not authorized to perform"), has("unable to assume the role"):
		return person, adviceRights
	}
	return 0, ""
}
