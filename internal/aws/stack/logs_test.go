package stack

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// CloudWatch answers with the oldest lines first.
func TestLog_HasTheLatestLines(t *testing.T) {
	answers, fails := 0, true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answers++
		if fails && answers > 2 {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"InvalidParameterException"}`)
			return
		}
		var events []string
		for i := range 1500 {
			events = append(events, fmt.Sprintf(`{"message":"line %d\n"}`, 1500*(answers-1)+i))
		}
		token := ""
		if answers == 1 || fails {
			token = `,"nextToken":"more"`
		}
		fmt.Fprintf(w, `{"events":[%s]%s}`, strings.Join(events, ","), token)
	}))
	t.Cleanup(server.Close)
	s := &Stack{Name: "prod", outputs: map[string]string{"LogGroups": "/terrapulse/prod"}, aws: aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}}

	text, err := s.Log(t.Context(), "runner", time.Now(), "")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(lines) != maxLines || lines[maxLines-2] != "line 2999" || !strings.Contains(lines[maxLines-1], "later lines are missing") {
		t.Errorf("after an error: %d lines from %.40s to %.80s, %v", len(lines), lines[0], lines[len(lines)-1], err)
	}
	answers, fails = 0, false
	text, err = s.Log(t.Context(), "runner", time.Now(), "")
	lines = strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(lines) != maxLines || lines[0] != "line 1000" || lines[maxLines-1] != "line 2999" {
		t.Errorf("%d lines from %.40s to %.40s, %v", len(lines), lines[0], lines[len(lines)-1], err)
	}
}
