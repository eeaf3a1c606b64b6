package ecs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
)

const (
	adviceRoute = "check that the function's subnets and security groups let it reach ECS (port 443), by NAT or a VPC endpoint"
	adviceLater = "the next tick tries again"
	adviceWrong = "check the parameters for subnets, security groups, capacity and the runner, and deploy the stack again"
)

// rules classify what ECS says, which is an error code with a message, or a reason with a detail.
// The first rule counts whose code begins the text, or one of whose words, in lower case, is in it:
// some error codes (InvalidParameterException, ClientException) say little.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/api_failures_messages.html
var rules = []struct {
	codes, words []string
	kind         fault.Kind
	advice       string
}{
	// Requests of ECS itself to other services can be throttled, too.
	{[]string{"ConflictException"}, []string{"requestlimitexceeded", "request limit exceeded", "rate exceeded", "too many concurrent"}, fault.Transient, adviceLater},
	{[]string{"LimitExceededException"}, []string{"reached the limit on the number of", "above your limit", "limit exceeded"},
		fault.Transient, "the next tick tries again; lower the parameter MaxContainers, or have AWS raise the account's quota of Fargate vCPUs"},
	{[]string{"RESOURCE:", "AGENT", "LOCATION"}, []string{"capacity is unavailable", "insufficientfreeaddresses"},
		fault.Transient, "the next tick tries again; subnets in more availability zones and FARGATE in the parameter Capacity help"},
	{[]string{"AccessDeniedException", "UnauthorizedOperation", "UnrecognizedClientException", "InvalidClientTokenId"},
		[]string{"is not authorized to perform", "unable to assume the role"},
		fault.Person, "the role of functions/reconcile lacks this right: deploy the stack again, and check the parameter PermissionsBoundary and the organization's policies"},
	{[]string{"ClusterNotFoundException", "ResourceNotFoundException", "MISSING", "INACTIVE"}, nil,
		fault.Person, "the stack did not create it: deploy the stack again"},
	{[]string{"BlockedException"}, nil, fault.Person, "the account is blocked: ask AWS Support"},
	{[]string{"ATTRIBUTE"}, nil, fault.Person, adviceWrong},
}

// failed returns an error with the kind and the advice of the first rule that fits the text. The
// given kind and advice are for texts that no rule fits.
func failed(act, text string, kind fault.Kind, advice string) error {
	message := strings.ToLower(text)
	for _, r := range rules {
		if slices.ContainsFunc(r.codes, func(code string) bool { return strings.HasPrefix(text, code) }) ||
			slices.ContainsFunc(r.words, func(word string) bool { return strings.Contains(message, word) }) {
			kind, advice = r.kind, r.advice
			break
		}
	}
	return fault.As(kind, fmt.Errorf("%s: %s; %s", act, text, advice))
}

// classify returns the error of a request with its kind: transient if ECS cannot be reached,
// throttles requests, has an internal error or no capacity. A person is needed if a right is
// missing, or the stack names something wrong or missing.
func classify(act string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", act, err)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		advice := adviceLater
		if dial := new(net.OpError); errors.As(err, &dial) && dial.Op == "dial" {
			advice = adviceRoute
		}
		if u := new(url.Error); errors.As(err, &u) {
			err = fmt.Errorf("no answer from %s: %w", u.URL, u.Err) // without the layers that say nothing
		}
		return fault.As(fault.Transient, fmt.Errorf("%s: %w; %s", act, err, advice))
	}
	kind, advice := fault.Transient, adviceLater
	_, throttled := retry.DefaultThrottleErrorCodes[api.ErrorCode()]
	if answer := new(smithyhttp.ResponseError); !throttled && errors.As(err, &answer) && answer.HTTPStatusCode() < 500 {
		kind, advice = fault.Person, adviceWrong
	}
	err = failed(act, api.ErrorCode()+": "+api.ErrorMessage(), kind, advice)
	if api.ErrorCode() == "ConflictException" { // its token belongs to a request that started nothing
		err = fmt.Errorf("%w: %w", reconcile.ErrRefused, err)
	}
	return err
}

// refused classifies a failure that RunTask returns in a successful answer.
func refused(act string, f types.Failure) error {
	text := cmp.Or(strings.TrimSuffix(aws.ToString(f.Reason)+": "+aws.ToString(f.Detail), ": "), "ECS started none, and does not say why")
	return fmt.Errorf("%w: %w", reconcile.ErrRefused, failed(act, text, fault.Transient, adviceLater))
}
