package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/awsjson"
)

// Components are the parts of a deployment that have a log group.
var Components = []string{"reconcile", "settle", "api", "runner"}

// Problems is a filter for the lines that are warnings and errors.
const Problems = `{ $.level = "WARN" || $.level = "ERROR" }`

const (
	maxLines = 2000   // of a log
	pageOf   = 10_000 // lines in an answer, at most
)

// Log returns the latest lines of the log of a component since a time, at most 2,000. A
// filter in the syntax of CloudWatch selects lines; "" selects all. If CloudWatch fails in the
// middle, the last line says so.
func (s *Stack) Log(ctx context.Context, component string, since time.Time, filter string) ([]byte, error) {
	group, err := s.logGroup(component)
	if err != nil {
		return nil, err
	}
	client := awsjson.New(s.aws)
	in := map[string]any{"logGroupName": group, "startTime": since.UnixMilli(), "limit": pageOf}
	if filter != "" {
		in["filterPattern"] = filter
	}
	var lines []string
	for {
		var out struct {
			Events    []struct{ Message string }
			NextToken string
		}
		err := client.Call(ctx, awsjson.FilterLogEvents, "", in, &out)
		switch {
		case err != nil && len(lines) == 0:
			return nil, fmt.Errorf("read log group %s: %w", group, err)
		case err != nil:
			lines, out.NextToken = append(lines, fmt.Sprintf("terrapulse: later lines are missing: %s", err)), ""
		}
		for _, e := range out.Events { // the oldest first
			lines = append(lines, strings.TrimSuffix(e.Message, "\n"))
		}
		lines = slices.Delete(lines, 0, max(0, len(lines)-maxLines))
		if out.NextToken == "" {
			return []byte(strings.Join(lines, "\n") + "\n"), nil
		}
		in["nextToken"] = out.NextToken
	}
}
