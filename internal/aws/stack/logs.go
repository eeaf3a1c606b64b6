package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/terrapulse/terrapulse/internal/base/list"
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
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group, StartTime: aws.Int64(since.UnixMilli()), Limit: aws.Int32(pageOf)}
	if filter != "" {
		in.FilterPattern = &filter
	}
	var lines []string
	latest := func(more ...string) { // the oldest first
		lines = append(lines, more...)
		lines = slices.Delete(lines, 0, max(0, len(lines)-maxLines))
	}
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(cloudwatchlogs.NewFromConfig(s.aws), in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil && len(lines) == 0 {
			return nil, fmt.Errorf("read log group %s: %w", group, err)
		}
		if err != nil {
			latest(fmt.Sprintf("terrapulse: later lines are missing: %s", err))
			break
		}
		latest(list.Map(page.Events, func(e types.FilteredLogEvent) string { return strings.TrimSuffix(aws.ToString(e.Message), "\n") })...)
	}
	return []byte(strings.Join(lines, "\n") + "\n"), nil
}
