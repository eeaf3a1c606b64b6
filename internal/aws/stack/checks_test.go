package stack

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// answering returns a stack whose services give one answer to everything.
func answering(t *testing.T, status int, answer string) *Stack {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return &Stack{Name: "prod", parameters: map[string]string{}, outputs: map[string]string{"LogGroups": "/terrapulse/prod"},
		aws: aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}}
}

func TestCheck_AContainerOfWhichNothingIsHeardIsAProblem(t *testing.T) {
	planned := state.Run{Claimed: state.Claimed{Runner: "c1"}, Created: time.Now()}
	for _, missing := range []*Stack{answering(t, 200, `{"events":[]}`), answering(t, 400, `{"__type":"ResourceNotFoundException"}`)} {
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if _, err := missing.checkSettle(ctx, planned); err == nil || !strings.Contains(err.Error(), "got no event about the container") {
			t.Errorf("without a line of the settle function: %v", err)
		}
		if _, err := missing.checkContainerLog(ctx, planned); err == nil || !strings.Contains(err.Error(), "/terrapulse/prod/runner has no line in runner/runner/c1") {
			t.Errorf("without a log of the container: %v", err)
		}
		stop()
	}
	s := answering(t, 200, `{"events":[{"message":"x"}]}`)
	if _, err := s.checkContainerLog(t.Context(), state.Run{}); err == nil || !strings.Contains(err.Error(), "could not read from ECS") {
		t.Errorf("a run without a container: %v", err)
	}
	for _, linger := range []string{"0s", "300s"} { // the container of a plan does not linger
		s.parameters["Linger"] = linger
		if found, err := s.checkSettle(t.Context(), planned); err != nil || found == "" {
			t.Errorf("with Linger=%s: %v", linger, err)
		}
	}
}
