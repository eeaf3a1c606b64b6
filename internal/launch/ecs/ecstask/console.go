package ecstask

import (
	"fmt"
	"net/url"
	"strings"
)

// logPrefix is awslogs-stream-prefix of the task definition.
const logPrefix = "runner"

// Console has the pages of the AWS console that show containers.
type Console struct {
	Cluster  string // ARN
	LogGroup string // of the containers
}

// Task is the page of an ECS task.
func (c Console) Task(id string) string {
	cluster := c.Cluster[strings.LastIndex(c.Cluster, "/")+1:]
	return fmt.Sprintf("%s/ecs/v2/clusters/%s/tasks/%s?region=%s", c.host(), url.PathEscape(cluster), url.PathEscape(id), c.region())
}

// Log is the page of the log of an ECS task.
func (c Console) Log(id string) string {
	stream := logPrefix + "/" + Container + "/" + id
	return fmt.Sprintf("%s/cloudwatch/home?region=%s#logsV2:log-groups/log-group/%s/log-events/%s", c.host(), c.region(), inFragment(c.LogGroup), inFragment(stream))
}

// inFragment escapes a name as CloudWatch's console does it in the fragment of an URL:
// twice, with $ for the second %.
func inFragment(name string) string {
	return strings.ReplaceAll(url.QueryEscape(url.QueryEscape(name)), "%", "$")
}

func (c Console) region() string {
	if parts := strings.Split(c.Cluster, ":"); len(parts) > 3 {
		return parts[3]
	}
	return ""
}

// host is the console of the partition. Each partition has a domain of its own.
func (c Console) host() string {
	domain := "aws.amazon.com"
	switch {
	case strings.HasPrefix(c.Cluster, "arn:aws-cn:"):
		domain = "amazonaws.cn"
	case strings.HasPrefix(c.Cluster, "arn:aws-us-gov:"):
		domain = "amazonaws-us-gov.com"
	}
	return "https://" + c.region() + ".console." + domain
}
