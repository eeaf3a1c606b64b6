package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/smithy-go"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// kind is what an error means for whoever has to deal with it. An Error is its
// kind, in the sense of errors.Is.
type kind int

const (
	unavailable kind = iota + 1 // passes: no answer, or an error of DynamoDB's own
	throttled                   // passes: asked for too much
	busy                        // passes at once: another transaction is at work on the same item
	person
)

func (k kind) Error() string {
	return [...]string{"", "unavailable", "throttled", "busy", "needs a person"}[k]
}

// Error is something that DynamoDB did not do.
type Error struct {
	kind   kind
	act    string
	table  string
	cause  error
	advice string // may be empty
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s in DynamoDB table %s: %v", e.act, e.table, e.cause)
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

// Is makes an Error its kind.
func (e *Error) Is(target error) bool { return target == e.kind }

// Passes reports whether the error may pass by itself: throttling, an outage, a
// lost answer. The SDK has tried again by then.
func Passes(err error) bool {
	return errors.Is(err, unavailable) || errors.Is(err, throttled) || errors.Is(err, busy)
}

// classify says what an error of the SDK means.
func (s *Store) classify(act string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !isAnswer(err) {
		return fmt.Errorf("%s in DynamoDB table %s: %w", act, s.table, err)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return &Error{kind: unavailable, act: act, table: s.table, cause: err,
			advice: "if that lasts: can DynamoDB be reached from these subnets, through a NAT gateway or a gateway endpoint?"}
	}
	return s.reason(act, api.ErrorCode(), api.ErrorMessage())
}

func isAnswer(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api)
}

// reason says what an error code means, of an answer or of one item of a
// transaction.
func (s *Store) reason(act, code, message string) error {
	e := &Error{kind: unavailable, act: act, table: s.table, cause: fmt.Errorf("%s: %s", code, message)}
	switch code {
	case "TransactionConflict", "TransactionConflictException", "TransactionInProgressException", "ReplicatedWriteConflictException":
		e.kind = busy
	case "ThrottlingException", "ThrottlingError", "ProvisionedThroughputExceeded", "ProvisionedThroughputExceededException",
		"RequestLimitExceeded", "LimitExceededException":
		e.kind = throttled
	case "AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationTokenException", "ExpiredTokenException",
		"KMSAccessDeniedException":
		e.kind, e.advice = person, "the credentials need dynamodb:GetItem, Query, PutItem, DeleteItem and ConditionCheckItem on the table, and the use of its KMS key"
	case (&types.ResourceNotFoundException{}).ErrorCode():
		e.kind, e.advice = person, "is the name right, and the region? the stack makes the table"
	case "ItemCollectionSizeLimitExceeded", "ItemCollectionSizeLimitExceededException":
		e.kind = person
	case "ValidationException", "ValidationError", "SerializationException", "IdempotentParameterMismatchException":
		return s.schema(act, e.cause)
	}
	return e
}

// schema is the error of a table that is not one of ours.
func (s *Store) schema(act string, cause error) error {
	if cause == nil {
		cause = errors.New("an item has no key of ours")
	}
	return &Error{kind: person, act: act, table: s.table, cause: cause,
		advice: fmt.Sprintf("the table needs the string keys %s (partition) and %s (sort): is it Terrapulse's?", PartitionKey, SortKey)}
}
