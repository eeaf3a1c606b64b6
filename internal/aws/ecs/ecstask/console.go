package ecstask

import (
	"fmt"
	"net/url"
	"strings"
)

// logPrefix is awslogs-stream-prefix of the task definition.
const logPrefix = "runner"

// Console has the pages of the AWS console that show a deployment.
type Console struct {
	Stack   string // its name
	Cluster string // ARN
	Logs    string // beginning of the names of the log groups, as the stack's output LogGroups
}

// LogGroup returns the name of the log group of a component: reconcile, settle, api or runner.
func (c Console) LogGroup(component string) string { return c.Logs + "/" + component }

// Group is the page of the log group of a component.
func (c Console) Group(component string) string {
	return c.cloudWatch("logsV2:log-groups/log-group/" + inFragment(c.LogGroup(component)))
}

// Alarms is the page of the stack's alarms.
func (c Console) Alarms() string { return c.cloudWatch("alarmsV2:?~(search~'" + c.Stack + "-)") }

// Dashboard is the page of the stack's dashboard. Its name contains the region: the regions of an
// account share the names of dashboards.
func (c Console) Dashboard() string {
	return c.cloudWatch("dashboards:name=" + c.Stack + "-terrapulse-" + c.region())
}

// Containers is the page of all containers.
func (c Console) Containers() string {
	return fmt.Sprintf("%s/ecs/v2/clusters/%s/tasks?region=%s", c.host(), url.PathEscape(c.cluster()), c.region())
}

// Object is the page of an object in S3, such as the output of a run.
func (c Console) Object(bucket, key string) string {
	return fmt.Sprintf("%s/s3/object/%s?region=%s&prefix=%s", c.host(), url.PathEscape(bucket), c.region(), url.QueryEscape(key))
}

func (c Console) cloudWatch(page string) string {
	return fmt.Sprintf("%s/cloudwatch/home?region=%s#%s", c.host(), c.region(), page)
}

func (c Console) cluster() string { return c.Cluster[strings.LastIndex(c.Cluster, "/")+1:] }

// Task is the page of an ECS task.
func (c Console) Task(id string) string {
	return fmt.Sprintf("%s/ecs/v2/clusters/%s/tasks/%s?region=%s", c.host(), url.PathEscape(c.cluster()), url.PathEscape(id), c.region())
}

// LogStream is the log stream of the container in an ECS task.
func LogStream(id string) string { return logPrefix + "/" + Container + "/" + id }

// Log is the page of the log of an ECS task.
func (c Console) Log(id string) string {
	return c.Group("runner") + "/log-events/" + inFragment(LogStream(id))
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
