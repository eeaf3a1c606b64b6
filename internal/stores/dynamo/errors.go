package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/terrapulse/terrapulse/internal/base/fault"
)

// Error is a failed request to DynamoDB.
type Error struct {
	kind   fault.Kind
	again  bool // Apply retries it at once: the SDK does not
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

// Fault is transient for throttling, an outage and a lost answer, after all retries.
func (e *Error) Fault() fault.Kind { return e.kind }

// classify returns the meaning of an SDK error.
func (s *Store) classify(ctx context.Context, act string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s in DynamoDB table %s: %w", act, s.table, err)
	}
	// There is no type for this error: the first is the SDK's, the second that of awsjson.
	if text := err.Error(); strings.Contains(text, "get identity: ") || strings.Contains(text, "get credentials for AWS: ") {
		return s.person(act, err, "there are no valid credentials for AWS: log in, or set AWS_PROFILE")
	}
	if api := smithy.APIError(nil); errors.As(err, &api) {
		return s.reason(act, api.ErrorCode(), api.ErrorMessage())
	}
	return &Error{kind: fault.Transient, act: act, table: s.table, cause: err,
		advice: "if this persists, check that DynamoDB can be reached, in a VPC through a NAT gateway or a gateway endpoint"}
}

// reason returns the meaning of an error code, of an answer or of one item of a transaction. The
// codes are those of "Error handling with DynamoDB" and of CancellationReasons in its API
// reference.
func (s *Store) reason(act, code, message string) *Error {
	e := &Error{kind: fault.Transient, act: act, table: s.table, cause: fmt.Errorf("%s: %s", code, message)}
	switch code {
	case "TransactionConflict", "TransactionConflictException", "TransactionInProgressException", "ReplicatedWriteConflictException":
		e.again = true // another transaction writes the same item
	case "AccessDeniedException":
		e.kind, e.advice = fault.Person, "give the role this right; the roles of the stack have the rights for its own table and key"
	case "UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignatureException",
		"MissingAuthenticationTokenException", "ExpiredTokenException":
		e.kind, e.advice = fault.Person, "the credentials for AWS are not valid or have expired: log in again"
	case (&types.ResourceNotFoundException{}).ErrorCode():
		e.kind, e.advice = fault.Person, "check its name and the region; the stack creates the table"
	case "ValidationException", "ValidationError":
		e.kind = fault.Person
		if strings.Contains(message, "key") || strings.Contains(message, "schema") {
			return s.schema(act, e.cause)
		}
	}
	return e
}

// schema returns the error of a table with another schema.
func (s *Store) schema(act string, cause error) *Error {
	if cause == nil {
		cause = errors.New("an item has no key of Terrapulse")
	}
	return s.person(act, cause, fmt.Sprintf("the table needs the string keys %s (partition) and %s (sort): is it a table of Terrapulse?", PartitionKey, SortKey))
}

// person returns an error that only a person can resolve.
func (s *Store) person(act string, cause error, advice string) *Error {
	return &Error{kind: fault.Person, act: act, table: s.table, cause: cause, advice: advice}
}
