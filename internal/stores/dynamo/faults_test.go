package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
)

// cancelled is the answer to a transaction with refused items.
func cancelled(codes ...string) dynamotest.Fault {
	var reasons []string
	for _, code := range codes {
		reasons = append(reasons, fmt.Sprintf(`{"Code":%q,"Message":"because"}`, code))
	}
	return dynamotest.Answered(http.StatusBadRequest, "TransactionCanceledException",
		`"Message":"Transaction cancelled","CancellationReasons":[`+strings.Join(reasons, ",")+`]`)
}

func TestApply_LostAnswerOfAWrite(t *testing.T) {
	t.Parallel()
	failure := dynamotest.DoneAnd(http.StatusInternalServerError, "InternalServerError", `"message":"Internal server error"`)
	for name, fault := range map[string]dynamotest.Fault{"no answer": dynamotest.Lost, "an error after the effect": failure} {
		t.Run(name, func(t *testing.T) {
			s, proxy, _ := behind(t)
			lose := func(n int) {
				for _, operation := range []string{"PutItem", "TransactWriteItems"} {
					proxy.Next(operation, dynamotest.Times(n, fault)...)
				}
			}
			lose(1)
			a := apply(t, s, state.Create("task/a", []byte("1")))[0]
			expect(t, s, a)
			lose(2)
			a = apply(t, s, state.Replace(a, []byte("2")))[0]
			expect(t, s, a)
			lose(3)
			ab := apply(t, s, state.Replace(a, []byte("3")), state.Create("task/b", nil))
			expect(t, s, ab[0])
			lose(1)
			apply(t, s, state.Check(ab[0]))
			lose(1)
			apply(t, s, state.Delete(ab[0]))
			lose(1)
			apply(t, s, state.Delete(ab[1]), state.Create("task/c", nil))
			if got, err := s.List(t.Context(), "task/"); err != nil || len(got) != 1 {
				t.Errorf("left are %v, %v; want c alone", got, err)
			}
		})
	}
}

func TestApply_LostAnswerDoesNotHideOtherWrites(t *testing.T) {
	t.Parallel()
	s, proxy, table := behind(t)
	other := dynamo.New(dynamotest.Config(dynamotest.Start(t)), table.table)
	a := apply(t, s, state.Create("task/a", []byte("1")))[0]

	var theirs state.Record
	proxy.Next("PutItem", dynamotest.LostThen(func() {
		mine, err := other.Get(context.Background(), "task/a")
		if err != nil {
			t.Error(err)
			return
		}
		records, err := other.Apply(context.Background(), state.Replace(mine, []byte("theirs")))
		if err != nil {
			t.Error(err)
			return
		}
		theirs = records[0]
	}))
	_, err := s.Apply(t.Context(), state.Replace(a, []byte("2")))
	refusal(t, err, &theirs)
	expect(t, s, theirs)
}

func TestApply_ConflictAfterALostAnswer(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	there := apply(t, s, state.Create("task/a", []byte("there")))[0]
	proxy.Next("PutItem", dynamotest.Lost)
	_, err := s.Apply(t.Context(), state.Create("task/a", []byte("other")))
	refusal(t, err, &there)
	proxy.Next("TransactWriteItems", dynamotest.Lost)
	_, err = s.Apply(t.Context(), state.Create("task/b", nil), state.Create("task/a", []byte("other")))
	refusal(t, err, &there)
}

func TestStore_RetriesThrottledRequests(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	rec := apply(t, s, state.Create("task/a", nil))[0]
	do := map[string]func() error{
		"GetItem":            func() error { _, err := s.Get(t.Context(), "task/a"); return err },
		"Query":              func() error { _, err := s.List(t.Context(), "task/"); return err },
		"BatchGetItem":       func() error { _, err := s.GetSeveral(t.Context(), []string{"task/a", "task/b"}); return err },
		"PutItem":            func() error { _, err := s.Apply(t.Context(), state.Create("lease/b", nil)); return err },
		"TransactWriteItems": func() error { _, err := s.Apply(t.Context(), state.Check(rec)); return err },
	}
	for operation, do := range do {
		proxy.Requests()
		proxy.Next(operation, dynamotest.Times(100, dynamotest.Throttled)...)
		start := time.Now()
		err := do()
		if err == nil || !fault.IsTransient(err) || !strings.Contains(err.Error(), "Rate exceeded") || !strings.Contains(err.Error(), tableName) {
			t.Errorf("%s: %v", operation, err)
		}
		took := time.Since(start)
		if diff := cmp.Diff(map[string]int{operation: 1, dynamotest.Repeated: 3}, proxy.Requests()); diff != "" || took > 5*time.Second {
			t.Errorf("%s took %s, want a few seconds (-want +got):\n%s", operation, took, diff)
		}
		proxy.Next(operation, dynamotest.Times(2, dynamotest.Throttled)...)
		if err := do(); err != nil {
			t.Errorf("%s after two refusals: %v", operation, err)
		}
	}
}

const tableName = "DynamoDB table test-"

func TestApply_RetriesATransactionConflict(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	gone := apply(t, s, state.Create("task/gone", nil))[0]
	for i, fault := range []dynamotest.Fault{
		cancelled("TransactionConflict", "None"), cancelled("None", "ProvisionedThroughputExceeded"), cancelled("ThrottlingError", "None"),
	} {
		proxy.Next("TransactWriteItems", fault, fault)
		proxy.Requests()
		apply(t, s, state.Create(fmt.Sprintf("task/%d", i), nil), state.Create(fmt.Sprintf("task/%d.", i), nil))
		if n := proxy.Requests()["TransactWriteItems"]; n != 3 {
			t.Errorf("%d tries, want 3", n)
		}
	}
	proxy.Next("PutItem", dynamotest.Answered(http.StatusBadRequest, "TransactionConflictException", `"message":"busy"`))
	apply(t, s, state.Create("task/single", nil))

	// The first attempt takes effect while the second one is told to wait.
	wait := dynamotest.DoneAnd(http.StatusBadRequest, "TransactionInProgressException", `"Message":"wait"`)
	proxy.Next("TransactWriteItems", dynamotest.Times(5, wait)...)
	apply(t, s, state.Delete(gone))

	proxy.Next("TransactWriteItems", dynamotest.Times(100, cancelled("TransactionConflict", "None"))...)
	proxy.Requests()
	_, err := s.Apply(t.Context(), state.Create("task/x", nil), state.Create("task/y", nil))
	if err == nil || !fault.IsTransient(err) || !strings.Contains(err.Error(), "task/x") {
		t.Errorf("a conflict that does not end: %v", err)
	}
	if n := proxy.Requests()["TransactWriteItems"]; n != 7 {
		t.Errorf("%d tries, want 7", n)
	}
}

func TestApply_ConflictOutweighsTransientErrors(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	proxy.Next("TransactWriteItems", cancelled("TransactionConflict", "ConditionalCheckFailed"))
	proxy.Requests()
	_, err := s.Apply(t.Context(), state.Create("task/a", nil), state.Create("task/b", nil))
	refusal(t, err, nil)
	if n := proxy.Requests()["TransactWriteItems"]; n != 1 {
		t.Errorf("%d tries, want 1", n)
	}
}

func TestApply_ManyTransactionsOnOneRecord(t *testing.T) {
	t.Parallel()
	s, _, _ := behind(t)
	lease := apply(t, s, state.Create("lease/x", nil))[0]
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if _, err := s.Apply(t.Context(), state.Check(lease), state.Create(fmt.Sprintf("task/%d", i), nil)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, err := s.List(t.Context(), "task/"); err != nil || len(got) != 40 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func TestStore_WaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	proxy.Next("TransactWriteItems", dynamotest.Times(1000, cancelled("TransactionConflict", "None"))...)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.Apply(ctx, state.Create("task/x", nil), state.Create("task/y", nil))
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	hang := make(chan struct{})
	defer close(hang)
	proxy.Next("GetItem", func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, "task/x"); !errors.Is(err, context.DeadlineExceeded) || fault.IsTransient(err) {
		t.Errorf("a read that hangs: %v", err)
	}
}

func TestStore_UnreachableDynamoDB(t *testing.T) {
	t.Parallel()
	// The time limit is over before any connection exists, as with a security group that blocks
	// everything.
	cfg := dynamotest.Config("http://127.0.0.1:1")
	cfg.HTTPClient = awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) { d.Timeout = time.Nanosecond })
	cfg.RetryMaxAttempts = 1
	_, err := dynamo.New(cfg, "table").Get(t.Context(), "task/a")
	says(t, err, true, "127.0.0.1:1", "timeout", "gateway endpoint", "DynamoDB table table")

	cfg = dynamotest.Config("http://127.0.0.1:1")
	cfg.RetryMaxAttempts = 1
	_, err = dynamo.New(cfg, "table").List(t.Context(), "task/")
	says(t, err, true, "127.0.0.1:1", "refused", "gateway endpoint")
}

func TestStore_MissingCredentialsNeedAPerson(t *testing.T) {
	t.Parallel()
	cfg := dynamotest.Config("http://127.0.0.1:1")
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no profile, no role")
	})
	_, err := dynamo.New(cfg, "table").Get(t.Context(), "task/a")
	says(t, err, false, "no profile, no role", "log in", "AWS_PROFILE")
}

func TestStore_RefusalsNeedAPerson(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	for code, want := range map[string]string{
		"AccessDeniedException":       "give the role this right",
		"UnrecognizedClientException": "log in again",
		"ExpiredTokenException":       "log in again",
	} {
		proxy.Requests()
		proxy.Next("GetItem", dynamotest.Answered(http.StatusBadRequest, code, `"Message":"not authorized to perform: dynamodb:GetItem"`))
		_, err := s.Get(t.Context(), "task/a")
		says(t, err, false, "read record task/a", tableName, code, "dynamodb:GetItem", want)
		if n := proxy.Requests()["GetItem"]; n != 1 {
			t.Errorf("%s: asked %d times, want once", code, n)
		}
	}
	proxy.Next("PutItem", dynamotest.Answered(http.StatusBadRequest, "ValidationException", `"message":"Item size has exceeded the maximum allowed size"`))
	_, err := s.Apply(t.Context(), state.Create("task/a", nil))
	says(t, err, false, "write record task/a", "Item size")
}

// says expects an error that contains all of what, and is transient or not.
func says(t *testing.T, err error, passes bool, what ...string) {
	t.Helper()
	if err == nil || fault.IsTransient(err) != passes {
		t.Fatalf("%v: passes by itself is %t, want %t", err, fault.IsTransient(err), passes)
	}
	for _, w := range what {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

func TestStore_RecordsRoundTrip(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	proxy.Next("Query", dynamotest.Passed, dynamotest.Lost) // the second page, once
	var want []state.Record
	for i := range 12 {
		want = append(want, apply(t, s, state.Create(fmt.Sprintf("log/%02d", i), bytes.Repeat([]byte("v"), 120_000)))...)
	}
	proxy.Requests()
	got, err := s.List(t.Context(), "log/")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(map[string]int{"Query": 2, dynamotest.Repeated: 1}, proxy.Requests()); diff != "" {
		t.Errorf("two pages, one of them again (-want +got):\n%s", diff)
	}
}
